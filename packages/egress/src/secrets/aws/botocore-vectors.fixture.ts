// Requests signed by botocore 1.43 at a fixed time, as data: a second implementation of Signature Version 4 to compare with.

export interface SignedVector {
  readonly name: string
  readonly method: string
  readonly host: string
  readonly target: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
}

export const VECTOR_KEYS = {
  access_key_id: 'AKIAREALREALREAL0001',
  secret_access_key: 'realSecret/AccessKey+ForVectors0123456789',
}
export const VECTOR_SESSION_KEYS = {
  access_key_id: 'ASIAREALREALREAL0002',
  secret_access_key: 'realSecret/AccessKey+ForVectors0123456789',
  session_token: 'realSessionToken/with+signs=='.repeat(3),
}

/** Those with a session token are signed with VECTOR_SESSION_KEYS. */
export const VECTORS: readonly SignedVector[] = [
  {
    name: 'an object of S3 whose name has every kind of character',
    method: 'GET',
    host: 'bucket.s3.eu-west-1.amazonaws.com',
    target: '/a%20b/%C3%A9%2B%28x%29~%26%3D/c.txt',
    headers: [
      ['Host', 'bucket.s3.eu-west-1.amazonaws.com'],
      ['X-Amz-Date', '20250314T150926Z'],
      ['X-Amz-Content-SHA256', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=AKIAREALREALREAL0001/20250314/eu-west-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=1fe1fed766241d292b9c7a7dc03f8cc471648a289a591c717150751f1e2f638a',
      ],
    ],
    body: '',
  },
  {
    name: 'a bucket listing of S3 with a sorted query',
    method: 'GET',
    host: 'bucket.s3.amazonaws.com',
    target: '/?list-type=2&prefix=b%2Fa&delimiter=%2F&encoding-type=url&acl',
    headers: [
      ['Host', 'bucket.s3.amazonaws.com'],
      ['X-Amz-Date', '20250314T150926Z'],
      ['X-Amz-Content-SHA256', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=AKIAREALREALREAL0001/20250314/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=28a735cba4de99762c65cd84377a5c0a7b1702ec97b46f2dff328875901c81b0',
      ],
    ],
    body: '',
  },
  {
    name: 'an upload to S3 with a session token',
    method: 'PUT',
    host: 'bucket.s3.amazonaws.com',
    target: '/key',
    headers: [
      ['Host', 'bucket.s3.amazonaws.com'],
      ['Content-Type', 'text/plain'],
      ['x-amz-meta-note', '  two   spaces  '],
      ['X-Amz-Date', '20250314T150926Z'],
      ['X-Amz-Security-Token', VECTOR_SESSION_KEYS.session_token],
      ['X-Amz-Content-SHA256', 'b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9'],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=ASIAREALREALREAL0002/20250314/us-east-1/s3/aws4_request, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-meta-note;x-amz-security-token, Signature=a1ea55bf4035de93771e1bb4aabd7547377dd6b593076852721e03a633b4359b',
      ],
    ],
    body: 'hello world',
  },
  {
    name: 'DynamoDB, which has no hash in a header',
    method: 'POST',
    host: 'dynamodb.eu-central-1.amazonaws.com',
    target: '/',
    headers: [
      ['Host', 'dynamodb.eu-central-1.amazonaws.com'],
      ['Content-Type', 'application/x-amz-json-1.0'],
      ['X-Amz-Target', 'DynamoDB_20120810.ListTables'],
      ['X-Amz-Date', '20250314T150926Z'],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=AKIAREALREALREAL0001/20250314/eu-central-1/dynamodb/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=5fb43da67c7c7ed4e9ec6a062c98507a9bb3752b52f3961bb983dbebeb87d7a2',
      ],
    ],
    body: '{"Limit":10}',
  },
  {
    name: 'Lambda, whose encoded path is encoded again',
    method: 'POST',
    host: 'lambda.us-west-2.amazonaws.com',
    target: '/2015-03-31/functions/arn%3Aaws%3Alambda%3Aus-west-2%3A123456789012%3Afunction%3Amy-fn/invocations',
    headers: [
      ['Host', 'lambda.us-west-2.amazonaws.com'],
      ['X-Amz-Invocation-Type', 'Event'],
      ['X-Amz-Date', '20250314T150926Z'],
      ['X-Amz-Security-Token', VECTOR_SESSION_KEYS.session_token],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=ASIAREALREALREAL0002/20250314/us-west-2/lambda/aws4_request, SignedHeaders=host;x-amz-date;x-amz-invocation-type;x-amz-security-token, Signature=2be4f94dae00a7173a121314956881732d10ef09edfb0642b4e0e0494349053b',
      ],
    ],
    body: '{}',
  },
  {
    name: 'a path with empty and dot segments outside of S3',
    method: 'GET',
    host: 'api.execute-api.us-east-1.amazonaws.com',
    target: '//stage/./a/../b/?z=1&a=2&a=1',
    headers: [
      ['Host', 'api.execute-api.us-east-1.amazonaws.com'],
      ['X-Amz-Date', '20250314T150926Z'],
      [
        'Authorization',
        'AWS4-HMAC-SHA256 Credential=AKIAREALREALREAL0001/20250314/us-east-1/execute-api/aws4_request, SignedHeaders=host;x-amz-date, Signature=635d4bfa2fc30189148ff60948519eac17fee541420eb6adabb13bf73358aa0c',
      ],
    ],
    body: '',
  },
  {
    name: 'a presigned download from S3',
    method: 'GET',
    host: 'bucket.s3.eu-west-1.amazonaws.com',
    target:
      '/dir/a%20file.txt?response-content-disposition=attachment%3B%20filename%3D%22x%20y%22&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAREALREALREAL0001%2F20250314%2Feu-west-1%2Fs3%2Faws4_request&X-Amz-Date=20250314T150926Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=d38df483dffd1ab584b672b3cfc9ce19edbaec5a1120555ef40bc13aba65ffef',
    headers: [['Host', 'bucket.s3.eu-west-1.amazonaws.com']],
    body: '',
  },
  {
    name: 'a presigned upload to S3 with a session token',
    method: 'PUT',
    host: 'bucket.s3.amazonaws.com',
    target:
      '/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ASIAREALREALREAL0002%2F20250314%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20250314T150926Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-amz-acl&X-Amz-Security-Token=realSessionToken%2Fwith%2Bsigns%3D%3DrealSessionToken%2Fwith%2Bsigns%3D%3DrealSessionToken%2Fwith%2Bsigns%3D%3D&X-Amz-Signature=6e7217c84ac7f4bab0625bac70174de3f65e3389d04a24b02b6cfdce6e1c595d',
    headers: [
      ['Host', 'bucket.s3.amazonaws.com'],
      ['x-amz-acl', 'private'],
    ],
    body: '',
  },
  {
    name: 'a presigned GetCallerIdentity, as EKS uses it',
    method: 'GET',
    host: 'sts.us-east-1.amazonaws.com',
    target:
      '/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=ASIAREALREALREAL0002%2F20250314%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Date=20250314T150926Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host%3Bx-k8s-aws-id&X-Amz-Security-Token=realSessionToken%2Fwith%2Bsigns%3D%3DrealSessionToken%2Fwith%2Bsigns%3D%3DrealSessionToken%2Fwith%2Bsigns%3D%3D&X-Amz-Signature=40b40b86ea21a4d1a3b659c6b1a08f9449e4890aec7df1a01c36f679157aa31a',
    headers: [
      ['Host', 'sts.us-east-1.amazonaws.com'],
      ['x-k8s-aws-id', 'cluster'],
    ],
    body: '',
  },
]
