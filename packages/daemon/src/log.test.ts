import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { createLogger, linesTo } from './log.ts'
import { temporaryFolder } from './testing/daemon.fixture.ts'

function lines(): { written: string[]; write(line: string): void } {
  const written: string[] = []
  return { written, write: line => void written.push(line) }
}

it('redacts secrets by the name of their field, at any depth', () => {
  const to = lines()
  const log = createLogger('info', to)
  log.info(
    {
      api_key: 'hide-1',
      headers: { authorization: 'hide-2' },
      spec: { inner: { token: 'hide-3' } },
      env: { A: 'hide-4' },
      body: { value: 'hide-5' },
      kept: 'seen',
    },
    'hello',
  )
  expect(to.written.join()).not.toContain('hide')
  expect(JSON.parse(to.written[0] ?? '')).toMatchObject({ level: 'info', msg: 'hello', kept: 'seen', api_key: '***' })
})

it('writes nothing below its level', () => {
  const to = lines()
  createLogger('warn', to).info('unheard')
  expect(to.written).toEqual([])
})

it('drops lines on a full disk instead of throwing', () => {
  const full = openSync('/dev/full', 'w')
  onTestFinished(() => closeSync(full))
  const log = createLogger('info', linesTo(full))
  expect(() => log.info('dirtyBytes')).not.toThrow()
})

it('writes whole lines to a file', async () => {
  const path = join(await temporaryFolder(), 'log')
  const fd = openSync(path, 'a')
  onTestFinished(() => closeSync(fd))
  const log = createLogger('info', linesTo(fd))
  log.info({ text: 'x' }, 'one')
  log.info({ kept: 'é'.repeat(100_000) }, 'two')
  expect(
    readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line).msg),
  ).toEqual(['one', 'two'])
})
