import { appendFile, readFile, stat, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../testing/daemon.fixture.ts'
import { LogReader, type LogRecord, LogWriter } from './event-log.ts'

const text = (words: string) => ({ type: 'text' as const, text: words })

async function all(reader: LogReader): Promise<LogRecord[]> {
  const records: LogRecord[] = []
  for await (const record of reader.records()) records.push(record)
  return records
}

async function written(folder: string, count: number): Promise<void> {
  await using log = await LogWriter.open(folder)
  for (let i = 1; i <= count; i++)
    await log.append([{ at: i, try: 1, offset: i * 10, events: [text(`a${i}`), text(`b${i}`)], raw: `line ${i}` }])
}

describe('the event log of a task', () => {
  it('numbers events over records and over openings', async () => {
    const folder = await temporaryFolder()
    await written(folder, 2)
    await written(folder, 1)
    await using reader = await LogReader.open(folder)
    expect((await all(reader)).map(({ id, offset }) => [id, offset])).toEqual([
      [1, 10],
      [3, 20],
      [5, 10],
    ])
  })

  it('loses a record that a crash has cut off, at every byte, and nothing before it', async () => {
    const folder = await temporaryFolder()
    const path = join(folder, 'events.jsonl')
    await written(folder, 3)
    const whole = await readFile(path)
    const lastStart = whole.lastIndexOf('\n', whole.length - 2) + 1
    for (let length = lastStart; length < whole.length; length += 7) {
      await truncate(path, length)
      await appendFile(path, '')
      await using log = await LogWriter.open(folder)
      expect(log.end).toEqual({ nextId: 5, try: 1, offset: 20 })
      expect((await stat(path)).size).toBe(lastStart)
      await log.append([{ at: 3, try: 1, offset: 30, events: [text('a3'), text('b3')], raw: 'line 3' }])
      expect((await readFile(path)).equals(whole)).toBe(true)
    }
  })

  it('is read on while it grows', async () => {
    const folder = await temporaryFolder()
    await written(folder, 1)
    await using reader = await LogReader.open(folder)
    expect(await all(reader)).toHaveLength(1)
    expect(await all(reader)).toEqual([])
    await written(folder, 2)
    expect((await all(reader)).map(({ id }) => id)).toEqual([3, 5])
  })

  it('that does not exist has no records', async () => {
    await using reader = await LogReader.open(join(await temporaryFolder(), 'none'))
    expect([reader.isOpen, await all(reader)]).toEqual([false, []])
  })

  it('takes a bounded number of records that end a task when it is full', async () => {
    const folder = await temporaryFolder()
    await using log = await LogWriter.open(folder, 100)
    const result = { at: 1, try: 1, offset: 1, events: [{ type: 'result' as const, text: 'x'.repeat(16 * 1024 * 1024) }] }
    expect(log.hasRoom({ isConclusive: false })).toBe(true)
    await log.append([result])
    expect([log.hasRoom({ isConclusive: false }), log.hasRoom({ isConclusive: true })]).toEqual([false, true])
    for (let i = 0; i < 4; i++) await log.append([result])
    expect(log.hasRoom({ isConclusive: true })).toBe(false)
  })
})
