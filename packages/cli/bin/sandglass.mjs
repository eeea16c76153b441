#!/usr/bin/env node
// The entry. Everything it imports before the version check has to load on an old Node too.
import module from 'node:module'

const [major] = process.versions.node.split('.')
if (Number(major) < 24) {
  process.stderr.write(
    `sandglass: needs Node 24 or newer, this is ${process.version}\n  next: run ./sandglass in a clone, which brings its own, or install Node 24\n`,
  )
  process.exitCode = 2
} else {
  module.enableCompileCache()
  const { main } = await import('../src/main.ts')
  await main()
}
