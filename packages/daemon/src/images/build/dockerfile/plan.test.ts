import { describe, expect, it } from 'vitest'
import { parseDockerfile } from './dockerfile.ts'
import { refuseOnbuild } from './onbuild.ts'
import { type PlanOptions, planBuild } from './plan.ts'

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

describe('the bases of a Dockerfile', () => {
  it('are the images in FROM and COPY --from, without duplicates and stages', () => {
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
  ])('of %j with %j are %s', (text, buildArgs, base) => {
    expect(plan(text, { buildArgs }).bases).toEqual([base])
  })

  it('do not include the current stage: its name in COPY --from means an image', () => {
    expect(plan('FROM a AS ubuntu\nCOPY --from=ubuntu /x /x').bases).toEqual(['a', 'ubuntu'])
    expect(plan('FROM a\nCOPY --from=0 /x /x').bases).toEqual(['a', '0'])
  })

  it('are found behind flags that continue on the next line, and variables in other flags stay', () => {
    const text = 'FROM a\nCOPY --chown=$U:1 \\\n  --fr\\\nom=b /x /x\n'
    expect(written(text).lines).toEqual(['FROM <0>', 'COPY --chown=$U:1   --from=<1> /x /x'])
  })

  it('do not include those of stages after the target', () => {
    const text = 'FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\n'
    expect(written(text, { target: 'ONE' })).toEqual({ bases: ['a'], lines: ['FROM <0> AS one', 'RUN 1'] })
    expect(written(text, { target: '1' }).bases).toEqual(['a', 'b'])
    expect(() => plan(text, { target: 'three' })).toThrow('no stage three')
  })
})

describe('the Dockerfile for the engine', () => {
  it('has one line per instruction', () => {
    const text = '\uFEFF# syntax=x\n# escape=`\n\n  from a\r\nRUN one `\n# FROM hidden\n\n  two `  \nthree\n#FROM b\nrun FROM c\n'
    expect(written(text)).toEqual({ bases: ['a'], lines: ['# escape=`', 'FROM <0>', 'RUN one   two three', 'RUN FROM c'] })
  })

  it('never ends in a line continuation', () => {
    expect(written('FROM a\nRUN x \\').lines).toEqual(['FROM <0>', 'RUN x'])
    expect(written('FROM a\nRUN x \\\n\n# y\n').lines).toEqual(['FROM <0>', 'RUN x'])
  })
})

describe('a Dockerfile is refused', () => {
  it.each([
    ['', 'without FROM'],
    ['RUN x\nFROM a', 'only ARG'],
    [`FROM ${DOLLAR}{B}`, 'has no image'],
    ['FROM a AS', 'is not FROM IMAGE'],
    ['FROM a AS b c', 'is not FROM IMAGE'],
    ['FROM a\\b', 'is not FROM IMAGE'],
    ['FROM --platform=linux/s390x a', 'asks for linux/s390x'],
    ['FROM --x=y a', 'unknown flag'],
    ['FROM a\nCOPY --from=$X / /', '--from'],
    ['FROM a\nRUN cat <<EOF\nx\nEOF', 'here-document'],
    ['FROM a\nRUN x\u2028FROM b', 'control character'],
    ['# escape=x\nFROM a', 'has an escape other than'],
    ['FROM a\nADD http://x/y /z', 'fetch'],
    ['FROM a\nADD f HTTPS://x/y /z', 'fetch'],
    ['FROM a\nADD $X /z', 'fetch'],
    ['FROM a\nADD ht\\tp://x /z', 'fetch'],
    ['FROM a\nADD "http://x" /z', 'fetch'],
    ['FROM a\nADD ["h\\u0074tp://x", "/z"]', 'fetch'],
    ['FROM a\nADD ["x", /z', 'fetch'],
    ['FROM a\nONBUILD ADD http://x /z', 'fetch'],
    ['FROM a\nADD --chown=1:1 ["http://x","/z"]', 'fetch'],
    ['FROM a\nONBUILD COPY --from=b / /', 'copies from an image in ONBUILD'],
    ['FROM a\nONBUILD COPY --fr\\om=b / /', 'is not plain'],
    ['FROM a\nONBUILD O\\NBUILD ADD http://x /z', 'ONBUILD without an instruction'],
    ['FROM a\nONBUILD RUN cat <<EOF\nx\nEOF', 'here-document'],
    ['FROM a\nRUN cat <<1\nx\n1', 'here-document'],
    [`FROM a\nRUN cat ${DOLLAR}{X:-}<<"FROM b"\nFROM b`, 'here-document'],
    ['FROM a\nA"DD" http://x /z', 'not an instruction'],
    ['FROM a\nRUN x \\\u00a0\nRUN y', 'next line'],
    ['FROM a\nCOPY --fr"om"=b / /', 'is not plain'],
    ['FROM a\nCOPY --fr\\om=b / /', 'is not plain'],
    ['FROM a\nCOPY --chown=1 --fr\\\nom\\=b / /', 'is not plain'],
    ['# escape=`\nFROM a\nCOPY --fr\\om=b / /', 'is not plain'],
    ['FROM a\nCOPY --FROM=b / /', 'is not plain'],
    ['FROM a\nCOPY --chown=\u00e0--from=b / /', 'is not plain'],
    ['FROM a\nCOPY -- --from=b / /', 'is not plain'],
    ['FROM a\nCOPY --from=b --from=c / /', 'twice'],
  ])('%j', (text, why) => {
    expect(() => plan(text)).toThrow(why)
  })

  it('not for ADD of files, nor for ADD of a URL if the host’s network is allowed', () => {
    expect(plan('FROM a\nADD --chown=1:1 a.tar *.gz /z\nADD ["my file", "/z"]').bases).toEqual(['a'])
    expect(plan('FROM a\nADD http://x /z', { fetches: true }).bases).toEqual(['a'])
  })

  it.each([
    ['ADD http://x /z', 'fetch'],
    ['ADD --chown=1 ["http://x","/z"]', 'fetch'],
    ['copy --from=b / /', 'copies from an image in ONBUILD'],
    ['COPY --fr\\om=private/img:1 /x /x', 'is not plain'],
    ['COPY --fr"om=private/img:1" /x /x', 'is not plain'],
    ['A\\\nDD http://x /z', 'more than one line'],
    ['RUN true\nADD http://x /z', 'more than one line'],
    ['# escape=`\nADD http://x /z', 'more than one line'],
    ['ADD http://x /z \\', 'more than one line'],
    ['A\\DD http://x /z', 'not an instruction'],
    ['ONBUILD ADD http://x /z', 'fetch'],
    ['ADD\u000bhttp://x /z', 'fetch'],
    ['# nothing', 'not one instruction'],
  ])('for ONBUILD %j of a base', (instruction, why) => {
    expect(() => refuseOnbuild('a', ['RUN true', instruction], false)).toThrow(why)
    expect(() => refuseOnbuild('a', ['RUN true', instruction], false)).toThrow('ONBUILD of a')
  })

  it('not for common ONBUILD instructions', () => {
    refuseOnbuild(
      'a',
      ['COPY . /app', 'COPY --chown=$U:1 package.json /app/', 'RUN sed -i "s/\\./x/" f && echo `id`', 'ADD a.tar /'],
      false,
    )
    refuseOnbuild('a', ['ADD http://x /z'], true)
  })
})
