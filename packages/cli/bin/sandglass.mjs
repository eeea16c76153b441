#!/usr/bin/env node
// The entry. What runs before the version check has to run on an old Node too. An import of node:fs or node:util loads all that they can do,
// which takes longer than the rest of this; getBuiltinModule does not.
const [major] = process.versions.node.split('.')
if (Number(major) < 24) {
  process.stderr.write(
    `sandglass: needs Node 24 or newer, this is ${process.version}\n  next: run ./sandglass in a clone, which brings its own, or install Node 24\n`,
  )
  process.exitCode = 2
} else {
  keepCompiled(process.env.HOME)
  const { main } = await import('../src/main.ts')
  await main()
}

/**
 * SECURITY: what is kept is run as it is. Node's own choice is a folder in /tmp, where another user may have put something first; the home of
 * another user, as under sudo, is no better.
 */
function keepCompiled(home) {
  if (home && isOurs(home)) process.getBuiltinModule('node:module').enableCompileCache(`${home}/.cache/sandglass/compiled`)
}

function isOurs(folder) {
  try {
    return process.getBuiltinModule('node:fs').statSync(folder).uid === process.geteuid()
  } catch {
    return false // not there, or not for us to look at
  }
}
