package launch

import (
	"fmt"
	"os"
)

// A probeJob asks what this process may do here. Nothing it tries outlives it.
type probeJob struct {
	Folder string `json:"folder"` // an empty folder of the daemon's
}

// Each field is why it cannot be done, or "".
type probed struct {
	Mounts string `json:"mounts"` // bind mounts with attributes
	Loop   string `json:"loop"`   // disks on loop devices
	Idmap  string `json:"idmap"`  // mounts with shifted owners
	// Overlay: read-only overlays, which an ordinary user may not mount on every kernel.
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
	folder, err := openPath(j.Folder)
	if err != nil {
		return err
	}
	defer folder.close()
	return bind("/usr", folder, attrReadonly|attrNosuid|attrNodev, true)
}

func probeOverlay(j *probeJob) error {
	folder, err := openPath(j.Folder)
	if err != nil {
		return err
	}
	defer folder.close()
	l := layer{Empty: j.Folder}
	return l.showPrivate("/usr", folder, "")
}

func probeLoop() error {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return control.Close()
}

func probeIdmap() error {
	ids, err := userNamespace([]idRange{{Inside: 0, Outside: 1 << 28, Size: 1 << 16}})
	if err != nil {
		return err
	}
	defer ids.Close()
	t, err := cloneTree("/usr", false)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.setAttr(attrReadonly, int(ids.Fd())); err != nil {
		return fmt.Errorf("shift the owners of /usr: %w", err)
	}
	return nil
}
