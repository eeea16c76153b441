// Every generated file and what makes it.
import { readFileSync } from 'node:fs'
import { openapi } from '@sandglass/contract'
import { apiPage } from './api.ts'
import { backendsPage } from './backends.ts'
import { changelogPage } from './changelog.ts'
import { cliPage } from './cli.ts'
import { configFlags } from './config-flags.ts'
import { configurationPage } from './configuration.ts'
import { errorsPage } from './errors.ts'
import { filesPage } from './files.ts'
import { lifecyclePage } from './lifecycle.ts'
import { limitsPage } from './limits.ts'
import { manPage } from './man.ts'
import { sdkShapes } from './sdk-shapes.ts'
import { sessionFlags } from './session-flags.ts'

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
