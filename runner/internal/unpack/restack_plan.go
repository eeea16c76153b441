package unpack

import (
	"archive/tar"
	"io"
	"path"
	"sort"
	"strings"
)

// A plan holds what is known only at the end of a layer: which of several entries of one name counts, the real path of an entry below a
// link, and which folders are opaque.
type plan struct {
	Entries int `json:"entries"`
	// Dropped are the numbers of entries that a later one replaces or that have no file of their own.
	Dropped map[int]bool `json:"dropped"`
	// Names are the real paths of entries whose name leads through a link; Links are the real paths of hard link targets.
	Names map[int]string `json:"names"`
	Links map[int]string `json:"links"`
	// Dirs are all folders, parents before children.
	Dirs      []planDir `json:"dirs"`
	Whiteouts []string  `json:"whiteouts"`
}

type planDir struct {
	Name   string            `json:"name"`
	Mode   int64             `json:"mode"`
	UID    int               `json:"uid"`
	GID    int               `json:"gid"`
	Mtime  int64             `json:"mtime"`
	Opaque bool              `json:"opaque,omitempty"`
	Xattrs map[string]string `json:"xattrs,omitempty"`
}

// A planner reads a layer and builds its plan. SECURITY: its memory is bounded, because a few bytes of a layer can imply many entries.
type planner struct {
	root       *planNode
	plan       *plan
	maxEntries int

	nodes int // entries and implied folders
	text  int // bytes of names and attributes
}

// Bound of the bytes of all names and attributes of a plan. Each folder counts with its whole path.
const maxPlanText = 64 << 20

func newPlanner(maxEntries int) *planner {
	return &planner{root: newDir(), maxEntries: maxEntries,
		plan: &plan{Dropped: map[int]bool{}, Names: map[int]string{}, Links: map[int]string{}}}
}

// read reads a layer to its end.
func (p *planner) read(input io.Reader) (*plan, error) {
	archive := tar.NewReader(input)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			p.collect("/", p.root)
			return p.plan, nil
		}
		if err != nil {
			return nil, invalid("", "not a whole tar archive: "+err.Error())
		}
		if err := p.count(header.Name); err != nil {
			return nil, err
		}
		if err := p.add(p.plan.Entries, header); err != nil {
			return nil, err
		}
		p.plan.Entries++
	}
}

func (p *planner) count(name string) error {
	if p.nodes++; p.nodes > p.maxEntries {
		return tooManyEntries(name)
	}
	return nil
}

// countText counts text before it becomes part of the plan.
func (p *planner) countText(name string, bytes int) error {
	if p.text += bytes; p.text > maxPlanText {
		return &refusal{codeManyNameBytes, name, "more bytes of names and attributes than a layer may have"}
	}
	return nil
}

func (p *planner) add(number int, header *tar.Header) error {
	if header.Typeflag == tar.TypeXGlobalHeader {
		p.plan.Dropped[number] = true
		return nil
	}
	name, err := safeName(header.Name)
	if err != nil {
		return err
	}
	base := path.Base(name)
	if strings.HasPrefix(base, whiteoutPrefix) {
		p.plan.Dropped[number] = true
		return p.addWhiteout(path.Dir(name), base)
	}
	if name == "/" {
		p.plan.Dropped[number] = true
		if header.Typeflag != tar.TypeDir {
			return invalid(header.Name, "the root is not a folder")
		}
		return p.setDir(p.root, header)
	}
	parent, at, err := p.find(path.Dir(name), 0)
	if err != nil {
		return err
	}
	real := path.Join(at, base)
	if err := p.countText(name, len(base)); err != nil {
		return err
	}
	if real != name {
		if err := p.countText(name, len(real)); err != nil {
			return err
		}
		p.plan.Names[number] = real
	}
	switch header.Typeflag {
	case tar.TypeDir:
		p.plan.Dropped[number] = true // folders are written first
		dir, err := p.makeDir(parent, base, real)
		if err != nil {
			return err
		}
		return p.setDir(dir, header)
	case tar.TypeSymlink:
		if header.Linkname == "" || len(header.Linkname) > maxPathBytes || strings.IndexByte(header.Linkname, 0) >= 0 {
			return invalid(header.Name, "its target is not a path")
		}
		if err := p.countText(name, len(header.Linkname)); err != nil {
			return err
		}
		p.replace(parent, base, &planNode{entry: number, kind: tar.TypeSymlink, target: header.Linkname})
	case tar.TypeLink:
		return p.addLink(number, header, parent, base)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont, tar.TypeFifo:
		p.replace(parent, base, &planNode{entry: number, kind: tar.TypeReg})
	default:
		// SECURITY: devices and entries of unknown kinds are left out.
		p.plan.Dropped[number] = true
	}
	return nil
}

func (p *planner) addLink(number int, header *tar.Header, parent *planNode, base string) error {
	name, err := safeName(header.Linkname)
	if err != nil || name == "/" {
		return invalid(header.Name, "a hard link leads out of the layer")
	}
	dir, at, err := p.find(path.Dir(name), 0)
	if err != nil {
		return err
	}
	target := dir.children[path.Base(name)]
	if target == nil {
		return invalid(header.Name, "the target of a hard link is not in the layer: "+header.Linkname)
	}
	if target.kind == tar.TypeDir || target.kind == whiteoutKind {
		return invalid(header.Name, "the target of a hard link is not a file: "+header.Linkname)
	}
	if target == parent.children[base] {
		p.plan.Dropped[number] = true
		return nil
	}
	real := path.Join(at, path.Base(name))
	if err := p.countText(header.Name, len(real)); err != nil {
		return err
	}
	p.plan.Links[number] = real
	p.replace(parent, base, &planNode{entry: number, kind: tar.TypeReg})
	return nil
}

func (p *planner) addWhiteout(dir, base string) error {
	if base != opaqueMarker && strings.HasPrefix(base, auxPrefix) {
		return nil // bookkeeping of another storage driver
	}
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return invalid(path.Join(dir, base), "a whiteout without a name")
	}
	parent, at, err := p.find(dir, 0)
	if err != nil {
		return err
	}
	if base == opaqueMarker {
		parent.dir.Opaque = true
		return nil
	}
	found := parent.children[hidden]
	switch {
	case found == nil:
		p.replace(parent, hidden, &planNode{entry: -1, kind: whiteoutKind})
		return p.countText(hidden, len(at)+len(base))
	case found.kind == tar.TypeDir:
		// The layer itself has a folder of that name, before or after this entry: it replaces the folder below.
		found.dir.Opaque = true
	}
	return nil
}

func (p *planner) collect(name string, node *planNode) {
	node.dir.Name = name
	p.plan.Dirs = append(p.plan.Dirs, *node.dir)
	names := make([]string, 0, len(node.children))
	for child := range node.children {
		names = append(names, child)
	}
	sort.Strings(names)
	for _, child := range names {
		switch found := node.children[child]; found.kind {
		case tar.TypeDir:
			p.collect(path.Join(name, child), found)
		case whiteoutKind:
			p.plan.Whiteouts = append(p.plan.Whiteouts, path.Join(name, child))
		}
	}
}

func dirOf(header *tar.Header, opaque bool) *planDir {
	return &planDir{Mode: header.Mode & 0o7777, UID: header.Uid, GID: header.Gid, Mtime: header.ModTime.Unix(), Opaque: opaque, Xattrs: harmless(header)}
}

func harmless(header *tar.Header) map[string]string {
	kept := map[string]string{}
	for key, value := range header.PAXRecords {
		if attribute := strings.TrimPrefix(key, xattrPax); attribute != key && isHarmless(attribute) {
			kept[key] = value
		}
	}
	return kept
}
