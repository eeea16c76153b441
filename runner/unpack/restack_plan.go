package unpack

import (
	"archive/tar"
	"io"
	"path"
	"sort"
	"strings"
)

// A plan is what a layer comes to, as far as one cannot know it before its end: which of several entries of one name counts, where an
// entry below a link really is, and which folders hide what lower layers have in them.
type plan struct {
	Entries int `json:"entries"`
	// Dropped are the numbers of entries that another one replaces, or that are none in a disk.
	Dropped map[int]bool `json:"dropped"`
	// Names are those of entries that are elsewhere than their own says; Links likewise for what a hard link leads to.
	Names map[int]string `json:"names"`
	Links map[int]string `json:"links"`
	// Dirs are all folders, each after the one it is in.
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

// SECURITY: what is remembered of a layer is bounded, however few bytes it is told in.
type planner struct {
	root       *planNode
	plan       *plan
	maxEntries int

	nodes int // entries, and folders that are only implied
	text  int // bytes of names and attributes
}

// Bytes of all names and attributes that a plan may have; each folder has its whole path.
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

// keep is called before text becomes a part of the plan.
func (p *planner) keep(name string, bytes int) error {
	if p.text += bytes; p.text > maxPlanText {
		return &refusal{"too_large", name, "more bytes of names and attributes than a layer may have"}
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
	if err := p.keep(name, len(base)); err != nil {
		return err
	}
	if real != name {
		if err := p.keep(name, len(real)); err != nil {
			return err
		}
		p.plan.Names[number] = real
	}
	switch header.Typeflag {
	case tar.TypeDir:
		p.plan.Dropped[number] = true // folders are told of at the beginning
		dir, err := p.makeDir(parent, base, real)
		if err != nil {
			return err
		}
		return p.setDir(dir, header)
	case tar.TypeSymlink:
		if header.Linkname == "" || len(header.Linkname) > maxPathBytes || strings.IndexByte(header.Linkname, 0) >= 0 {
			return invalid(header.Name, "its target is not a path")
		}
		if err := p.keep(name, len(header.Linkname)); err != nil {
			return err
		}
		p.replace(parent, base, &planNode{entry: number, kind: tar.TypeSymlink, target: header.Linkname})
	case tar.TypeLink:
		return p.addLink(number, header, parent, base)
	case tar.TypeReg, tar.TypeRegA, tar.TypeGNUSparse, tar.TypeCont, tar.TypeFifo:
		p.replace(parent, base, &planNode{entry: number, kind: tar.TypeReg})
	default:
		// SECURITY: no device comes out of a layer, and no kind of entry that is not known is guessed at.
		p.plan.Dropped[number] = true
	}
	return nil
}

func (p *planner) addLink(number int, header *tar.Header, parent *planNode, base string) error {
	name, err := safeName(header.Linkname)
	if err != nil || name == "/" {
		return invalid(header.Name, "a hard link leaves the layer")
	}
	dir, at, err := p.find(path.Dir(name), 0)
	if err != nil {
		return err
	}
	target := dir.children[path.Base(name)]
	if target == nil {
		return invalid(header.Name, "a hard link to what is not in the layer: "+header.Linkname)
	}
	if target.kind == tar.TypeDir || target.kind == whiteoutKind {
		return invalid(header.Name, "a hard link to something that is not a file: "+header.Linkname)
	}
	if target == parent.children[base] {
		p.plan.Dropped[number] = true
		return nil
	}
	real := path.Join(at, path.Base(name))
	if err := p.keep(header.Name, len(real)); err != nil {
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
		return invalid(path.Join(dir, base), "a whiteout of no name")
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
		return p.keep(hidden, len(at)+len(base))
	case found.kind == tar.TypeDir:
		// The layer has a folder of that name itself, whichever came first: it replaces the one below.
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
