// The peer of a virtual machine: QEMU with the same kernel, drivers and image, started by hand, whose first program mounts the image and has
// its bash say hi.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const BUSYBOX = '/bin/busybox'
const DEADLINE_MS = 120_000

/** Does what a person would have it do, and nothing else. */
const INIT = `#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs none /dev
for m in $($b cat /modules/base.list); do $b insmod /modules/$m.ko; done
until [ -b /dev/vda ]; do :; done
$b mkdir /image
$b mount -t squashfs -o ro /dev/vda /image
$b ln -s /image/usr /usr; $b ln -s usr/lib /lib; $b ln -s usr/lib64 /lib64
/usr/bin/bash -c 'echo hi'
$b poweroff -f
`

export interface BareVm {
  readonly qemu: string
  readonly kernel: string
  readonly initramfs: string
  readonly image: string
  /** The clock of an emulated processor cannot be measured by a kernel on a busy host. */
  readonly kernelArgs: string
  readonly accel: string
  readonly memoryMb: number
}

/** `boot` is a folder with the kernel and the initramfs that our machines have; what is added to it is in `folder`. */
export async function prepareBareVm(folder: string, boot: string, vm: Omit<BareVm, 'initramfs' | 'kernel'>): Promise<BareVm> {
  const initramfs = join(folder, 'bare-initramfs')
  const added = Buffer.concat([
    entry('bin', 0o040755, Buffer.alloc(0)),
    entry('bin/busybox', 0o100755, await readFile(BUSYBOX)),
    entry('bare', 0o100755, Buffer.from(INIT)),
    entry('TRAILER!!!', 0, Buffer.alloc(0)),
  ])
  // A kernel unpacks one archive after the other.
  await writeFile(initramfs, Buffer.concat([await readFile(join(boot, 'initramfs')), added]))
  return { ...vm, kernel: join(boot, 'kernel'), initramfs }
}

/** Milliseconds until the machine has said it. */
export async function bootBareVm(vm: BareVm, signal: AbortSignal): Promise<number> {
  const begin = performance.now()
  const args = [
    '-M',
    'microvm,acpi=on',
    '-accel',
    vm.accel,
    '-cpu',
    vm.accel === 'kvm' ? 'host' : 'max',
    '-m',
    String(vm.memoryMb),
  ]
  args.push('-nodefaults', '-no-user-config', '-nographic', '-no-reboot', '-kernel', vm.kernel, '-initrd', vm.initramfs)
  args.push('-append', `console=ttyS0 quiet panic=-1 rdinit=/bare ${vm.kernelArgs}`, '-serial', 'stdio')
  args.push('-drive', `id=image,file=${vm.image},format=raw,if=none,readonly=on`, '-device', 'virtio-blk-device,drive=image')
  const child = spawn(vm.qemu, args, { stdio: ['ignore', 'pipe', 'inherit'], signal, timeout: DEADLINE_MS })
  let said = ''
  let firstOutputMs: number | undefined
  child.stdout.on('data', text => {
    said += text
    if (/^hi\r?$/m.test(said)) firstOutputMs ??= performance.now() - begin
  })
  await once(child, 'close')
  if (firstOutputMs === undefined) throw new Error(`the bare machine said ${JSON.stringify(said.slice(-500))}`)
  return firstOutputMs
}

/** One file of a cpio archive in the "newc" form. */
function entry(name: string, mode: number, content: Buffer): Buffer {
  const bytes = Buffer.from(`${name}\0`)
  const fields = [0, mode, 0, 0, 1, 0, content.length, 0, 0, 0, 0, bytes.length, 0]
  const header = Buffer.from(`070701${fields.map(field => field.toString(16).padStart(8, '0')).join('')}`)
  const padding = (length: number) => Buffer.alloc((4 - (length % 4)) % 4)
  return Buffer.concat([header, bytes, padding(header.length + bytes.length), content, padding(content.length)])
}
