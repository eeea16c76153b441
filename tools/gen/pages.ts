// Every generated file and what makes it.
import { readFileSync } from 'node:fs'
import { openapi } from '@sandglass/contract'
import { changelogPage } from './changelog.ts'
import { manPage } from './man.ts'
import { apiPage } from './reference/api.ts'
import { backendsPage } from './reference/backends.ts'
import { cliPage } from './reference/cli.ts'
import { configurationPage } from './reference/configuration.ts'
import { errorsPage } from './reference/errors.ts'
import { filesPage } from './reference/files.ts'
import { lifecyclePage } from './reference/lifecycle.ts'
import { limitsPage } from './reference/limits.ts'
import { configFlags } from './sources/config-flags.ts'
import { sdkShapes } from './sources/sdk-shapes.ts'
import { sessionFlags } from './sources/session-flags.ts'

const { version }: { version: string } = JSON.parse(readFileSync('package.json', 'utf8'))

export const PAGES: Record<string, () => string | Promise<string>> = {
  'CHANGELOG.md': changelogPage,
  'docs/backends.md': backendsPage,
  'docs/reference/api.md': apiPage,
  'docs/reference/cli.md': cliPage,
  'docs/reference/configuration.md': configurationPage,
  'docs/reference/errors.md': errorsPage,
  'docs/reference/files.md': filesPage,
  'docs/reference/lifecycle.md': lifecyclePage,
  'docs/reference/limits.md': limitsPage,
  'docs/reference/openapi.json': () => `${JSON.stringify(openapi(version), null, 2)}\n`,
  'packages/cli/man/sandglass.1': () => manPage(version),
  'packages/cli/src/generated/config-flags.ts': configFlags,
  'packages/cli/src/generated/session-flags.ts': sessionFlags,
  'packages/sdk/src/generated/shapes.ts': sdkShapes,
}
