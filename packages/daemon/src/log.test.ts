import { expect, it } from 'vitest'
import { createLogger } from './log.ts'

function lines(): { written: string[]; write(line: string): void } {
  const written: string[] = []
  return { written, write: line => void written.push(line) }
}

it('cuts secrets by the name of their field, wherever they stand', () => {
  const to = lines()
  const log = createLogger('info', to)
  log.info(
    {
      api_key: 'hide-1',
      headers: { authorization: 'hide-2' },
      spec: { inner: { token: 'hide-3' } },
      env: { A: 'hide-4' },
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
