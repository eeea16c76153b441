package main

import (
	"bufio"
	"encoding/hex"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
)

// A port is a TCP socket of the sandbox that listens.
type port struct {
	number  int
	address net.IP
	inode   string
}

func answerPorts(run *runner, _ *request) (fields, []byte, error) {
	list := []fields{}
	open := append(listeningPorts("/proc/net/tcp"), listeningPorts("/proc/net/tcp6")...)
	owners := map[string]int{}
	if len(open) > 0 {
		owners = run.socketOwners()
	}
	for _, p := range open {
		f := fields{"port": p.number, "address": p.address.String()}
		pid, ok := owners[p.inode]
		if pid == os.Getpid() {
			continue
		}
		if ok {
			f["pid"] = pid
			if name, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm"); err == nil {
				f["command"] = text(strings.TrimSpace(string(name)))
			}
		}
		list = append(list, f)
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i]["port"].(int) < list[j]["port"].(int) })
	return fields{"ports": list}, nil, nil
}

// listeningPorts reads one of the kernel's tables; a table that is not there is empty.
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
		for i := 0; i < len(address); i += 4 { // words of the host's byte order, which is little-endian wherever we run
			address[i], address[i+1], address[i+2], address[i+3] = address[i+3], address[i+2], address[i+1], address[i]
		}
		list = append(list, port{int(value), address, columns[9]})
	}
	return list
}

// socketOwners maps socket inodes to processes, as far as they may be seen:
// those of the sandbox's user and the runner's own.
func (run *runner) socketOwners() map[string]int {
	owners := map[string]int{}
	for _, who := range []*account{run.cfg.User, nil} {
		as(who, func() error {
			for _, p := range allProcesses() {
				addSockets(owners, p.pid)
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
