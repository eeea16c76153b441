package oci

import (
	"fmt"
	"os"

	"sandglass/runner/internal/launch/mount"
	"sandglass/runner/internal/launch/userns"
)

// A probeJob asks which kernel features this process may use. Nothing that it tries outlives it.
type probeJob struct {
	Folder string `json:"folder"` // an empty folder of the daemon's
}

// probed says for each feature why it is not available, or "".
type probed struct {
	Mounts string `json:"mounts"` // detached mounts with attributes
	Loop   string `json:"loop"`   // loop devices
	Idmap  string `json:"idmap"`  // idmapped mounts
	// Overlay mounts, which an ordinary user may not make on every kernel.
	Overlay string `json:"overlay"`
}

func probe(j *probeJob) *probed {
	return &probed{Overlay: why(probeOverlay(j)), Mounts: why(probeMounts(j)), Loop: why(probeLoop()), Idmap: why(probeIdmap())}
}

func why(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func probeMounts(j *probeJob) error {
	folder, err := mount.Open(j.Folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	return mount.Bind("/usr", folder, mount.Readonly|mount.Nosuid|mount.Nodev, true)
}

func probeOverlay(j *probeJob) error {
	folder, err := mount.Open(j.Folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	l := layer{Empty: j.Folder}
	return l.mountPrivate("/usr", folder, "")
}

func probeLoop() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return control.Close()
}

func probeIdmap() error {
	ids, err := userns.New([]userns.Range{{Inside: 0, Outside: 1 << 28, Size: 1 << 16}})
	if err != nil {
		return err
	}
	defer ids.Close()
	t, err := mount.Clone("/usr", false)
	if err != nil {
		return err
	}
	defer t.Close()
	if err := t.SetAttr(mount.Readonly, int(ids.Fd())); err != nil {
		return fmt.Errorf("shift the owners of /usr: %w", err)
	}
	return nil
}
