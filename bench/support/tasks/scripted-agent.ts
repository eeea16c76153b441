// An agent whose prompt is a bash script, in an npm registry of its own: it prints what a benchmark wants, when it wants it.
import { type ScriptedRegistry, scriptedRegistry } from '../../../packages/daemon/src/agents/testing/scripted-registry.fixture.ts'

const PROGRAM = '#!/bin/bash\neval "$(cat)"\n'

/** Lines as Claude Code prints them. */
const line = (value: object) => JSON.stringify(value)
export const INIT_LINE = line({ type: 'system', subtype: 'init', session_id: '11111111-2222-3333-4444-555555555555' })
export const RESULT_LINE = line({ type: 'result', subtype: 'success', is_error: false, result: 'done', num_turns: 1 })
export const toolLine = (content: string) => line({ type: 'user', message: { content: [{ type: 'tool_result', content }] } })

export const bashRegistry = (): Promise<ScriptedRegistry> => scriptedRegistry(PROGRAM)
