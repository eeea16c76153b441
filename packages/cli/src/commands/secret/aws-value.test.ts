import { expect, test } from 'vitest'
import { awsValue } from './aws-value.ts'

const ID = 'AKIAEXAMPLE'
const KEY = 'abc/def+ghi=='
const TOKEN = 'token=with=signs'
const two = { access_key_id: ID, secret_access_key: KEY }
const three = { ...two, session_token: TOKEN }

test.each([
  ['JSON of the API', JSON.stringify(three), three],
  ['JSON of the API without a token', JSON.stringify({ ...two, session_token: null }), two],
  ['variables', `AWS_ACCESS_KEY_ID=${ID}\nAWS_SECRET_ACCESS_KEY=${KEY}\nAWS_SESSION_TOKEN=${TOKEN}`, three],
  ['exported variables', `export AWS_ACCESS_KEY_ID="${ID}"\r\nexport AWS_SECRET_ACCESS_KEY='${KEY}'\r\n`, two],
  [
    'a section of the credentials file',
    `[work]\n# mine\naws_access_key_id = ${ID}\naws_secret_access_key = ${KEY}\nregion = eu-west-1\n`,
    two,
  ],
  [
    'the answer of aws sts',
    JSON.stringify({ Credentials: { AccessKeyId: ID, SecretAccessKey: KEY, SessionToken: TOKEN, Expiration: 'x' } }),
    three,
  ],
  ['exported credentials', JSON.stringify({ Version: 1, AccessKeyId: ID, SecretAccessKey: KEY }), two],
])('%s becomes the value that the daemon takes', (_form, text, expected) => {
  expect(JSON.parse(awsValue(text))).toEqual(expected)
})

test.each([
  ['no secret_access_key', `AWS_ACCESS_KEY_ID=${KEY}`],
  ['no access_key_id', KEY],
  ['no access_key_id', ''],
  ['no access_key_id', '{"secret_access_key": "abc/def+ghi=="}'],
  ['access_key_id twice', `aws_access_key_id=${KEY}\nAWS_ACCESS_KEY_ID=${KEY}`],
  ['more than one section', `[a]\naws_access_key_id=${KEY}\n[b]\naws_secret_access_key=${KEY}`],
  ['not JSON', `{ ${KEY}`],
])('a value with %s is refused, and no part of it is repeated', (issue, text) => {
  expect(() => awsValue(text)).toThrow(issue)
  expect(() => awsValue(text)).not.toThrow(KEY)
})
