import { AGENT_VERSION, AGENTS } from '@sandglass/contract'
import { expect, it } from 'vitest'
import { agentProgram, agentToolFolders } from './program.ts'
import { AGENT_PACKAGES } from './table.ts'

it.each(AGENTS)('the packages of %s have a version, a path for the program, and a digest of 64 bytes', agent => {
  const { version, main, platforms } = AGENT_PACKAGES[agent]
  expect(version).toMatch(AGENT_VERSION)
  expect(main).toMatch(/^(@[a-z-]+\/)?[a-z-]+$/)
  for (const { name, program, tools, integrity } of Object.values(platforms)) {
    expect(name).toMatch(/^(@[a-z-]+\/)?[a-z0-9-]+$/)
    for (const path of [program, tools ?? 'none']) expect(path).toMatch(/^[a-z0-9_-]+(\/[a-z0-9_-]+)*$/)
    if (integrity !== null) expect(Buffer.from(integrity.replace(/^sha512-/, ''), 'base64')).toHaveLength(64)
  }
  expect(platforms.x64.integrity).not.toBeNull()
  expect(agentProgram(agent)).toBe(`/opt/sandglass/${agent}/bin/${agent}`)
})

it('only codex looks for programs of its package in PATH', () => {
  expect(AGENTS.filter(agent => agentToolFolders(agent).length > 0)).toEqual(['codex'])
})
