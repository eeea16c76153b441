import { expect, test } from 'vitest'
import { COMMAND_NAMES, loadCommand } from '../commands.ts'
import { commandHelp, flagForm, flagLines, partOf } from './help-text.ts'

test.each(COMMAND_NAMES)('help of %s names its flags and fits 80 columns', async name => {
  const command = await loadCommand(name)
  const help = commandHelp(name, command, process.stdout)
  expect(help).toContain(`sandglass ${name}`)
  for (const [flag, option] of Object.entries(command.options)) {
    expect(help).toContain(flagForm(flag, option).trim())
    expect(option.about, `${name} --${flag}`).not.toBe('')
  }
  expect(help.split('\n').filter(line => line.length > 80)).toEqual([])
})

test('a flag that is on by default is shown as --no-NAME', () => {
  expect(flagForm('start', { type: 'boolean', isOn: true, about: '' }).trim()).toBe('--no-start')
  expect(flagForm('backend', { type: 'string', choices: ['auto', 'oci'], about: '' }).trim()).toBe('--backend auto|oci')
})

test('explanations are indented under their first word', () => {
  const shown = flagLines({ a: { type: 'boolean', about: 'one two three four five six' } }, 36)
  expect(shown).toBe('      --a  one two three four five\n           six\n')
})

test('a command with actions has help for each of them', async () => {
  const image = await loadCommand('image')
  const build = partOf(image, 'build')
  expect(build?.usage).toEqual(['build [PATH] [-f DOCKERFILE] [-t REFERENCE]'])
  expect(Object.keys(build?.options ?? {})).toContain('build-arg')
  expect(build?.options).not.toHaveProperty('name')
  expect(build?.about).toMatch(/^build sends/)
  expect(build?.about).not.toMatch(/^import/m)
  expect(partOf(image, 'bild')).toBeUndefined()
  expect(partOf(await loadCommand('new'), 'box')).toBeUndefined()
})
