import { describe, expect, it } from 'vitest'
import { SecretSettings, SecretSpec } from '../schemas/secrets.ts'
import { SECRET_PRESETS } from './network.ts'
import { SECRET_PRESET_SETTINGS } from './secret-presets.ts'

describe('presets of secrets', () => {
  it.each(SECRET_PRESETS)('%s has settings that a secret can be stored with', preset => {
    const settings = SECRET_PRESET_SETTINGS[preset]
    expect(SecretSettings.parse(settings)).toEqual(settings)
    expect(SecretSpec.safeParse({ ...settings, env: settings.env ?? undefined, value: 'x' }).success).toBe(true)
  })

  it.each(SECRET_PRESETS)('%s names its hosts and headers, and inserts nothing in query and body', preset => {
    const { scopes, headers, ...rest } = SECRET_PRESET_SETTINGS[preset]
    expect(scopes.length).toBeGreaterThan(0)
    expect(headers.filter(name => /[*?]/.test(name))).toEqual([])
    expect(headers).toContain('authorization')
    expect(rest).toMatchObject({ query: false, body: false, allow_foreign_credentials: false })
  })

  it('each masked preset has a variable of its own; an AWS secret has several and names none', () => {
    const names = SECRET_PRESETS.map(preset => SECRET_PRESET_SETTINGS[preset].env)
    expect(new Set(names).size).toBe(SECRET_PRESETS.length)
    expect(SECRET_PRESET_SETTINGS.aws).toMatchObject({ kind: 'aws', env: null })
  })
})
