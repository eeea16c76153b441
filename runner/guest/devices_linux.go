package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Drivers come up after their modules are loaded.
const deviceDeadline = 10 * time.Second

// findDevice gives the path of the device that has this value in one of the files of its folder in /sys that the pattern names.
func findDevice(pattern, value string) (string, error) {
	for deadline := time.Now().Add(deviceDeadline); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(content)) == value {
				return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
			}
		}
	}
	return "", fmt.Errorf("no device is %s by %s", value, pattern)
}
