import { describe, expect, it } from 'vitest'
import { parseDockerfile } from './dockerfile.ts'
import { type PlanOptions, planBuild } from './plan.ts'
import { refuseTriggers } from './triggers.ts'

const plan = (text: string, options: Partial<PlanOptions> = {}) =>
  planBuild(parseDockerfile('Dockerfile', text), { name: 'Dockerfile', buildArgs: {}, fetches: false, ...options })
const written = (text: string, options?: Partial<PlanOptions>) => {
  const { bases, dockerfile } = plan(text, options)
  return {
    bases,
    lines: dockerfile(bases.map((_, i) => `<${i}>`))
      .trimEnd()
      .split('\n'),
  }
}
const DOLLAR = '$'

describe('what a Dockerfile starts from', () => {
  it('is found in FROM and in COPY --from, each once, and stages are none of it', () => {
    const text =
      'FROM a AS One\nFROM one as two\nCOPY --from=ONE /x /x\nCOPY --chown=1:1 --from=b /x /x\nCOPY --from=0 / /\nFROM scratch\nFROM a\n'
    expect(written(text)).toEqual({
      bases: ['a', 'b'],
      lines: [
        'FROM <0> AS One',
        'FROM one AS two',
        'COPY --from=ONE /x /x',
        'COPY --chown=1:1 --from=<1> /x /x',
        'COPY --from=0 / /',
        'FROM scratch',
        'FROM <0>',
      ],
    })
  })

  it.each([
    ['ARG B=x:1\nFROM $B', {}, 'x:1'],
    ['ARG B=x:1\nFROM $B', { B: 'y' }, 'y'],
    [`ARG V="12"\nARG B=debian:${DOLLAR}{V}\nFROM ${DOLLAR}{B}-slim`, {}, 'debian:12-slim'],
    [`FROM ${DOLLAR}{B:-z}`, {}, 'z'],
    [`ARG B\nFROM a${DOLLAR}{B:+b}`, { B: 'set' }, 'ab'],
    ['FROM --platform=$BUILDPLATFORM a', {}, 'a'],
    ['FROM "a"', {}, 'a'],
  ])('in %j with %j is %s', (text, buildArgs, base) => {
    expect(plan(text, { buildArgs }).bases).toEqual([base])
  })

  it('is not the stage that is being made, which is no stage for its own COPY', () => {
    expect(plan('FROM a AS ubuntu\nCOPY --from=ubuntu /x /x').bases).toEqual(['a', 'ubuntu'])
    expect(plan('FROM a\nCOPY --from=0 /x /x').bases).toEqual(['a', '0'])
  })

  it('is found behind flags that go on in the next line, and variables in other flags stay', () => {
    const text = 'FROM a\nCOPY --chown=$U:1 \\\n  --fr\\\nom=b /x /x\n'
    expect(written(text).lines).toEqual(['FROM <0>', 'COPY --chown=$U:1   --from=<1> /x /x'])
  })

  it('ends with the stage that is asked for', () => {
    const text = 'FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\n'
    expect(written(text, { target: 'ONE' })).toEqual({ bases: ['a'], lines: ['FROM <0> AS one', 'RUN 1'] })
    expect(written(text, { target: '1' }).bases).toEqual(['a', 'b'])
    expect(() => plan(text, { target: 'three' })).toThrow('no stage three')
  })
})

describe('what the engine gets', () => {
  it('has one line for each instruction, whatever hid them', () => {
    const text = '\uFEFF# syntax=x\n# escape=`\n\n  from a\r\nRUN one `\n# FROM hidden\n\n  two `  \nthree\n#FROM b\nrun FROM c\n'
    expect(written(text)).toEqual({ bases: ['a'], lines: ['# escape=`', 'FROM <0>', 'RUN one   two three', 'RUN FROM c'] })
  })

  it('never ends in what would join the next line', () => {
    expect(written('FROM a\nRUN x \\').lines).toEqual(['FROM <0>', 'RUN x'])
    expect(written('FROM a\nRUN x \\\n\n# y\n').lines).toEqual(['FROM <0>', 'RUN x'])
  })
})

describe('a Dockerfile is refused', () => {
  it.each([
    ['', 'without FROM'],
    ['RUN x\nFROM a', 'only ARG'],
    [`FROM ${DOLLAR}{B}`, 'starts from nothing'],
    ['FROM a AS', 'is not FROM IMAGE'],
    ['FROM a AS b c', 'is not FROM IMAGE'],
    ['FROM a\\b', 'is not FROM IMAGE'],
    ['FROM --platform=linux/s390x a', 'asks for linux/s390x'],
    ['FROM --x=y a', 'unknown flag'],
    ['FROM a\nCOPY --from=$X / /', '--from'],
    ['FROM a\nRUN cat <<EOF\nx\nEOF', 'here-document'],
    ['FROM a\nRUN x\u2028FROM b', 'control character'],
    ['# escape=x\nFROM a', 'neither'],
    ['FROM a\nADD http://x/y /z', 'fetch'],
    ['FROM a\nADD f HTTPS://x/y /z', 'fetch'],
    ['FROM a\nADD $X /z', 'fetch'],
    ['FROM a\nADD ht\\tp://x /z', 'fetch'],
    ['FROM a\nADD "http://x" /z', 'fetch'],
    ['FROM a\nADD ["h\\u0074tp://x", "/z"]', 'fetch'],
    ['FROM a\nADD ["x", /z', 'fetch'],
    ['FROM a\nONBUILD ADD http://x /z', 'fetch'],
    ['FROM a\nADD --chown=1:1 ["http://x","/z"]', 'fetch'],
    ['FROM a\nONBUILD COPY --from=b / /', 'later build'],
    ['FROM a\nONBUILD COPY --fr\\om=b / /', 'plain letters'],
    ['FROM a\nONBUILD O\\NBUILD ADD http://x /z', 'something else than an instruction'],
    ['FROM a\nONBUILD RUN cat <<EOF\nx\nEOF', 'here-document'],
    ['FROM a\nRUN cat <<1\nx\n1', 'here-document'],
    [`FROM a\nRUN cat ${DOLLAR}{X:-}<<"FROM b"\nFROM b`, 'here-document'],
    ['FROM a\nA"DD" http://x /z', 'no instruction'],
    ['FROM a\nRUN x \\\u00a0\nRUN y', 'next line'],
    ['FROM a\nCOPY --fr"om"=b / /', 'plain letters'],
    ['FROM a\nCOPY --fr\\om=b / /', 'plain letters'],
    ['FROM a\nCOPY --chown=1 --fr\\\nom\\=b / /', 'plain letters'],
    ['# escape=`\nFROM a\nCOPY --fr\\om=b / /', 'plain letters'],
    ['FROM a\nCOPY --FROM=b / /', 'plain letters'],
    ['FROM a\nCOPY --chown=\u00e0--from=b / /', 'plain letters'],
    ['FROM a\nCOPY -- --from=b / /', 'plain letters'],
    ['FROM a\nCOPY --from=b --from=c / /', 'twice'],
  ])('%j', (text, why) => {
    expect(() => plan(text)).toThrow(why)
  })

  it('not for an ADD of files, nor for one of an address where the host’s network is allowed', () => {
    expect(plan('FROM a\nADD --chown=1:1 a.tar *.gz /z\nADD ["my file", "/z"]').bases).toEqual(['a'])
    expect(plan('FROM a\nADD http://x /z', { fetches: true }).bases).toEqual(['a'])
  })

  it.each([
    ['ADD http://x /z', 'fetch'],
    ['ADD --chown=1 ["http://x","/z"]', 'fetch'],
    ['copy --from=b / /', 'later build'],
    ['COPY --fr\\om=private/img:1 /x /x', 'plain letters'],
    ['COPY --fr"om=private/img:1" /x /x', 'plain letters'],
    ['A\\\nDD http://x /z', 'several lines'],
    ['RUN true\nADD http://x /z', 'several lines'],
    ['# escape=`\nADD http://x /z', 'several lines'],
    ['ADD http://x /z \\', 'several lines'],
    ['A\\DD http://x /z', 'no instruction'],
    ['ONBUILD ADD http://x /z', 'fetch'],
    ['ADD\u000bhttp://x /z', 'fetch'],
    ['# nothing', 'not one instruction'],
  ])('for %j in an image that it starts from', (trigger, why) => {
    expect(() => refuseTriggers('a', ['RUN true', trigger], false)).toThrow(why)
    expect(() => refuseTriggers('a', ['RUN true', trigger], false)).toThrow('ONBUILD of a')
  })

  it('not for what other images usually leave to a later build', () => {
    refuseTriggers(
      'a',
      ['COPY . /app', 'COPY --chown=$U:1 package.json /app/', 'RUN sed -i "s/\\./x/" f && echo `id`', 'ADD a.tar /'],
      false,
    )
    refuseTriggers('a', ['ADD http://x /z'], true)
  })
})
