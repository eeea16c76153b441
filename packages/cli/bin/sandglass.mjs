#!/usr/bin/env node
// The entry point. The code before the version check must run on an old Node. An import of node:fs or node:util takes longer than the rest of
// this file; getBuiltinModule does not.
const [major] = process.versions.node.split('.')
if (Number(major) < 24) {
  process.stderr.write(
    `sandglass: needs Node 24 or newer, this is ${process.version}\n  next: run ./sandglass in a clone, which brings its own, or install Node 24\n`,
  )
  process.exitCode = 2
} else {
  cacheCompiled(process.env.HOME)
  const { main } = await import('../src/main.ts')
  await main()
}

/**
 * SECURITY: cached code is run without a check. Node's default is a folder in /tmp, where another user may have put code; the home of another
 * user, as under sudo, is no better.
 */
function cacheCompiled(home) {
  if (home && isOurs(home)) process.getBuiltinModule('node:module').enableCompileCache(`${home}/.cache/sandglass/compiled`)
}

function isOurs(folder) {
  try {
    return process.getBuiltinModule('node:fs').statSync(folder).uid === process.geteuid()
  } catch {
    return false // missing, or not accessible
  }
}
