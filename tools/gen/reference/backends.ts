// What each backend guarantees: the titles of the conformance suite, and what is left out of it with the reason.

import { CHECKS } from '../../../packages/daemon/src/backends/conformance/suite.ts'
import * as without from '../../../packages/daemon/src/backends/limitations.ts'
import { page, table } from '../markdown.ts'

type Column = { name: string; without: Readonly<Record<string, string>> }

const COLUMNS: Column[] = [
  { name: 'oci', without: {} },
  { name: 'oci as an ordinary user', without: { ...without.ORDINARY_USER, ...without.WITHOUT_CGROUP } },
  { name: 'oci with runsc', without: without.RUNSC },
  { name: 'docker', without: without.DOCKER },
  { name: 'microvm', without: without.MICROVM },
]

export function backendsPage(): string {
  const reasons: string[] = []
  const mark = (reason: string | undefined) => {
    if (reason === undefined) return 'yes'
    if (!reasons.includes(reason)) reasons.push(reason)
    return `no (${reasons.indexOf(reason) + 1})`
  }
  const rows = Object.keys(CHECKS).map(title => [title, ...COLUMNS.map(column => mark(column.without[title]))])
  return page(
    'Backends',
    'A backend makes the machine that a session is. `--backend` names one; `auto`, the default, takes the first of oci, docker and microvm that this host can run with every limit.',
    table(['backend', 'kernel', 'strength', 'needs'], STRENGTHS),
    'Each row below is a check that `npm test` runs against real machines of each backend: oci with crun, with runc and with runsc of gVisor, docker with a private engine, microvm with QEMU under TCG.',
    table(['guarantee', ...COLUMNS.map(({ name }) => name)], rows),
    reasons.map((reason, i) => `${i + 1}. ${reason}`).join('\n'),
    'An ordinary user with a delegated cgroup has what reason ' +
      `${reasons.indexOf(Object.values(without.WITHOUT_CGROUP)[0] ?? '') + 1} speaks of. \`sandglass doctor\` says what holds on your machine.`,
  )
}

const STRENGTHS = [
  ['oci', "the host's", 'namespaces, a range of user ids per session, seccomp, cgroups', 'crun or runc; root for all of it'],
  [
    'oci with runsc',
    "gVisor's",
    'a kernel in user space between programs and the host; user ids and cgroups as above',
    'runsc by path; root',
  ],
  ['docker', "the host's", 'the same without ids of its own: nobody is root in it', 'a Docker engine, here or elsewhere'],
  ['microvm', 'its own', 'a virtual machine; QEMU itself is confined', 'QEMU and a Linux kernel; no privilege'],
]
