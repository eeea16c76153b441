import type { Command } from '../../command.ts'

export const command: Command = {
  summary: 'Show the version',
  usage: [''],
  options: {},
  async run(_, { json, print }) {
    const { version }: { version: string } = JSON.parse(
      process.getBuiltinModule('node:fs').readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    )
    print(json ? `${JSON.stringify({ version, node: process.version })}\n` : `sandglass ${version}\n`)
    return 0
  },
}
