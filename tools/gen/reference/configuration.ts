import { CONFIG_ALIASES, Config } from '@sandglass/contract'
import { CONFIG_KEYS } from '../../../packages/daemon/src/config/keys.ts'
import { page, quote, table } from '../markdown.ts'

export function configurationPage(): string {
  const defaults: unknown = Config.parse({})
  const rows = CONFIG_KEYS.filter(key => !key.isLater).map(key => [
    quote(key.path),
    quote(`--${key.flag}`),
    quote(key.variable),
    shown(at(defaults, key.path)),
    key.about + (key.isSecret ? ' (secret: printed as ***)' : ''),
  ])
  return page(
    'Configuration',
    'A value comes from the first of: a flag of `sandglass serve`, the environment, the file `~/.sandglass/config.yaml` (which must be readable by its owner alone), the default. An unknown key is refused.',
    table(['key', 'flag', 'variable', 'default', 'what'], rows),
    `In the file these names mean the same: ${Object.entries(CONFIG_ALIASES)
      .map(([alias, key]) => `${quote(alias)} is ${quote(key)}`)
      .join(', ')}.`,
  )
}

function at(value: unknown, path: string): unknown {
  return path.split('.').reduce((v: unknown, name) => (v as Record<string, unknown> | undefined)?.[name], value)
}

const shown = (value: unknown) => (value === undefined ? '' : quote(JSON.stringify(value)))
