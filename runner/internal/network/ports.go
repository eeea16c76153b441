package network

import (
	"bufio"
	"encoding/hex"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"

	"sandglass/runner/internal/account"
	"sandglass/runner/internal/config"
	"sandglass/runner/internal/procfs"
	"sandglass/runner/internal/wire"
)

// A port is a listening TCP socket of the sandbox.
type port struct {
	number  int
	address net.IP
	inode   string
}

// AnswerPorts lists the listening ports of the sandbox except the runner's own.
func AnswerPorts(cfg *config.Config, _ *wire.Request) (wire.Fields, []byte, error) {
	list := []wire.Fields{}
	open := append(listeningPorts("/proc/net/tcp"), listeningPorts("/proc/net/tcp6")...)
	owners := map[string]int{}
	if len(open) > 0 {
		owners = socketOwners(cfg)
	}
	for _, p := range open {
		f := wire.Fields{"port": p.number, "address": p.address.String()}
		pid, ok := owners[p.inode]
		if pid == os.Getpid() {
			continue
		}
		if ok {
			f["pid"] = pid
			if name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil {
				f["command"] = wire.Text(strings.TrimSpace(string(name)))
			}
		}
		list = append(list, f)
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i]["port"].(int) < list[j]["port"].(int) })
	return wire.Fields{"ports": list}, nil, nil
}

// listeningPorts reads one table of the kernel. A missing table is empty.
func listeningPorts(table string) []port {
	file, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer file.Close()
	var list []port
	for lines := bufio.NewScanner(file); lines.Scan(); {
		columns := strings.Fields(lines.Text())
		const listening = "0A"
		if len(columns) < 10 || columns[3] != listening {
			continue
		}
		host, number, ok := strings.Cut(columns[1], ":")
		address, err := hex.DecodeString(host)
		value, numberErr := strconv.ParseUint(number, 16, 16)
		if !ok || err != nil || numberErr != nil || len(address)%4 != 0 {
			continue
		}
		for i := 0; i < len(address); i += 4 { // 32-bit words in the byte order of the host, which is little-endian on every supported machine
			address[i], address[i+1], address[i+2], address[i+3] = address[i+3], address[i+2], address[i+1], address[i]
		}
		list = append(list, port{int(value), address, columns[9]})
	}
	return list
}

// socketOwners maps socket inodes to pids, for the processes that the sandbox's user and the runner may inspect.
func socketOwners(cfg *config.Config) map[string]int {
	owners := map[string]int{}
	for _, who := range []*account.User{cfg.User, nil} {
		account.As(who, func() error {
			for _, p := range procfs.All() {
				addSockets(owners, p.PID)
			}
			return nil
		})
	}
	return owners
}

func addSockets(owners map[string]int, pid int) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd/"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		target, err := os.Readlink(dir + entry.Name())
		if err == nil && strings.HasPrefix(target, "socket:[") {
			owners[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = pid
		}
	}
}
