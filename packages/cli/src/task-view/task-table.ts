// Tables of tasks.
import type { TaskInfo } from '@sandglass/sdk'
import { table, tableWidth } from '../output/table.ts'
import { resultWidth } from '../output/wrap.ts'
import { cutTo, safeLine } from './agent-text.ts'
import { checkText, costText, outcomeText, timeText } from './task-text.ts'

/** For `task ls`: on a terminal the prompt is cut to what is left of the width. */
export function taskTable(tasks: readonly TaskInfo[], stream: NodeJS.WriteStream): string {
  const head = ['TASK', 'AGENT', 'STATUS', 'CONTEXT', 'COST', 'TIME', 'PROMPT']
  const rows = tasks.map(task => [
    task.id,
    task.agent,
    outcomeText(task),
    // The context of a task that was given none is named after the task.
    task.context === task.id ? '-' : cutTo(MAX_CONTEXT, safeLine(task.context)),
    costText(task.totalCostUsd),
    timeText(task),
    safeLine(task.prompt),
  ])
  const width = tableWidth(
    head,
    rows.map(row => row.with(-1, '')),
  )
  const left = Math.max(MIN_PROMPT, Math.min(MAX_PROMPT, resultWidth(stream) - (width - 'PROMPT'.length)))
  return table(
    head,
    rows.map(row => row.with(-1, cutTo(left, row.at(-1) ?? ''))),
    stream,
  )
}

const MAX_CONTEXT = 30
const MIN_PROMPT = 12
const MAX_PROMPT = 120

/** For several attempts or agents, side by side. */
export function attemptTable(tasks: readonly TaskInfo[], stream: NodeJS.WriteStream): string {
  const hasCheck = tasks.some(({ checkExitCode }) => checkExitCode !== null)
  const head = ['TASK', 'AGENT', 'OUTCOME', 'COST', 'TIME', 'TURNS', ...(hasCheck ? ['CHECK'] : [])]
  const rows = tasks.map(task => [
    task.id,
    task.agent,
    outcomeText(task),
    costText(task.totalCostUsd),
    timeText(task),
    String(task.numTurns),
    ...(hasCheck ? [checkText(task)] : []),
  ])
  return table(head, rows, stream)
}
