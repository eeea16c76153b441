package process

import (
	"sandglass/runner/internal/stdio"
	"sandglass/runner/internal/wire"
)

func newOutput(spec *Spec) *stdio.Output {
	if spec.KeepOutput {
		return stdio.NewKeptOutput(ackBytes)
	}
	return stdio.NewOutput(keptBytes, spec.HoldOutput)
}

func (p *Process) outputs() map[string]*stdio.Output {
	outputs := map[string]*stdio.Output{"stdout": p.Stdout}
	if p.stderr != nil {
		outputs["stderr"] = p.stderr
	}
	return outputs
}

// acknowledged has the fields of the reply to process.attach that only a process with keep_output has.
func (p *Process) acknowledged() wire.Fields {
	f := wire.Fields{}
	if p.spec.KeepOutput {
		for name, out := range p.outputs() {
			f[name+"_acknowledged"] = out.Acknowledged()
		}
	}
	return f
}

func (p *Process) acknowledge(call *call) error {
	if !p.spec.KeepOutput {
		return wire.Invalid("process %d was started without keep_output", p.pid)
	}
	if call.Stdout != nil {
		p.Stdout.Acknowledge(*call.Stdout)
	}
	if call.Stderr != nil && p.stderr != nil {
		p.stderr.Acknowledge(*call.Stderr)
	}
	return nil
}

// makeRoom lets drain take all that is left after the exit, so that the end of a process never waits for a client to
// acknowledge: a piece that waits to be written, a full pipe, and a piece that a descendant adds meanwhile.
func (p *Process) makeRoom() {
	for _, out := range p.outputs() {
		out.Extend(maxPipe + 2*drainBuffer)
	}
}

// hasUnacknowledged tells whether a process with keep_output has, or may still get, output that no client has stored.
func (p *Process) hasUnacknowledged() bool {
	if !p.spec.KeepOutput {
		return false
	}
	select {
	case <-p.Ended:
	default:
		return true
	}
	for _, out := range p.outputs() {
		if out.HasUnacknowledged() {
			return true
		}
	}
	return false
}

// retire keeps an ended process, and forgets the oldest one when there are too many. Those with unacknowledged output
// are forgotten last.
func (ps *Table) retire(p *Process) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.past = append(ps.past, p)
	if len(ps.past) <= keptProcesses {
		return
	}
	at := 0
	for i, past := range ps.past {
		if !past.hasUnacknowledged() {
			at = i
			break
		}
	}
	forgotten := ps.past[at]
	ps.past = append(append([]*Process(nil), ps.past[:at]...), ps.past[at+1:]...)
	if ps.byPID[forgotten.pid] == forgotten {
		delete(ps.byPID, forgotten.pid)
	}
}
