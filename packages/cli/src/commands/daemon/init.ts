import type { Command } from '../../command.ts'
import { noArguments, text, usage } from '../../parser/parse.ts'
import { ask } from '../../setup/ask.ts'
import { readConfigDocument, writeConfigDocument } from '../../setup/config-document.ts'
import { moveCredentials } from '../../setup/move-credentials.ts'

/** The flags, their keys in the file, the questions, and the defaults. */
const QUESTIONS = [
  { flag: 'default-image', key: 'default_image', prompt: 'Default image', unset: 'host' },
  { flag: 'data-dir', key: 'data_dir', prompt: 'Data folder', unset: '~/.sandglass/data' },
] as const

export const command: Command = {
  summary: 'Write the configuration file',
  usage: ['', '[FLAGS]'],
  about: `Asks for each value; Enter keeps the value in brackets. With flags it asks nothing. Other keys of the file are not changed.
Only you can read the file. API keys and tokens in it are moved into the encrypted secret store.`,
  options: {
    'default-image': {
      type: 'string',
      value: 'IMAGE',
      isImage: true,
      about: 'image of sessions that are created without --image',
    },
    'data-dir': { type: 'string', value: 'DIR', isPath: true, about: 'folder of sessions, disks and the store' },
  },
  async run(input, context) {
    noArguments(input)
    const { env, configPath, say } = context
    const file = await readConfigDocument(configPath, env)
    const hasFlags = QUESTIONS.some(({ flag }) => input.flags[flag] !== undefined)
    if (!hasFlags && !process.stdin.isTTY) throw usage('init asks questions and there is no terminal: give the values as flags')
    for (const { flag, key, prompt, unset } of QUESTIONS) {
      const given = hasFlags ? text(input.flags[flag]) : await ask(`${prompt} [${file.document.get(key) ?? unset}]: `)
      if (hasFlags && given === '') throw usage(`--${flag} is empty`)
      if (given) file.document.set(key, given)
    }
    writeConfigDocument(file)
    say(`wrote ${file.path}\n`)
    await moveCredentials(context, file)
    return 0
  },
}
