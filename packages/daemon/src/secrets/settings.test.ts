import { SECRET_PRESET_SETTINGS, SECRET_PRESETS } from '@sandglass/contract'
import { describe, expect, it } from 'vitest'
import { awsKeysOf, settingsOf, storedSettings, variablesOf } from './settings.ts'

const value = 'x'

describe('settings of a secret', () => {
  it('that the request leaves out come from the preset', () => {
    for (const preset of SECRET_PRESETS) expect(settingsOf('mine', { value, preset })).toEqual(SECRET_PRESET_SETTINGS[preset])
    expect(settingsOf('mine', { value, preset: 'gitlab', scopes: ['git.example.com'], env: undefined })).toEqual({
      ...SECRET_PRESET_SETTINGS.gitlab,
      scopes: ['git.example.com'],
    })
  })

  it('have the usual header where a scope is given and no header', () => {
    expect(settingsOf('mine', { value, scopes: ['a.example'] }).headers).toEqual(['authorization'])
    expect(settingsOf('mine', { value, scopes: ['a.example'], headers: [], query: true }).headers).toEqual([])
    expect(settingsOf('mine', { value }).headers).toEqual([])
  })

  it('of a secret that was stored before there were settings have no scope', () => {
    expect(storedSettings(null)).toMatchObject({ kind: 'masked', env: null, scopes: [] })
    const settings = settingsOf('mine', { value, preset: 'npm' })
    expect(storedSettings(JSON.stringify(settings))).toEqual(settings)
  })

  it('name the variable, or the name of the secret does', () => {
    expect(variablesOf('a.b-c', settingsOf('mine', { value }))).toEqual(['A_B_C'])
    expect(variablesOf('a', settingsOf('mine', { value, env: 'x_Y' }))).toEqual(['x_Y'])
    expect(variablesOf('a', settingsOf('mine', { value, preset: 'aws' }))).toHaveLength(3)
  })
})

it.each([
  'hush-hush',
  '{"access_key_id":"hush-hush"}',
  '{"access_key_id":"hush-hush","secret_access_key":"hush-hush","more":1}',
  '{"access_key_id":"hush-hush","secret_access_key":""}',
  '"hush-hush"',
  'null',
])('the value %s is no AWS key, and the error does not quote it', text => {
  const error = (() => {
    try {
      awsKeysOf('mine', text)
    } catch (e) {
      return e as Error
    }
  })()
  expect(error?.message).toContain('the secret mine, of kind aws, must be a JSON object')
  expect(error?.message).not.toContain('hush')
})
