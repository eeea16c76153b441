package unpack

import (
	"archive/tar"
	"path"
	"strings"
)

// A planNode is a name in the layer. Files have the number of their entry.
type planNode struct {
	entry    int
	kind     byte // tar.TypeDir, tar.TypeSymlink, whiteoutKind, or tar.TypeReg for everything else
	target   string
	dir      *planDir // of a folder
	children map[string]*planNode
}

const whiteoutKind = 'w'

func newDir() *planNode {
	return &planNode{entry: -1, kind: tar.TypeDir, dir: &planDir{Mode: 0o755}}
}

// find returns the folder of a path and its real path. Links are followed inside the layer, and missing folders are made.
func (p *planner) find(name string, links int) (*planNode, string, error) {
	if links > maxLinks {
		return nil, "", invalid(name, "its path leads through too many links")
	}
	at, real := p.root, make([]byte, 0, len(name)+1)
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' })
	for i, part := range parts {
		child := at.children[part]
		if child != nil && child.kind == tar.TypeSymlink {
			target := child.target
			if !path.IsAbs(target) {
				target = path.Join("/", string(real), target)
			}
			return p.find(path.Join(append([]string{"/", target}, parts[i+1:]...)...), links+1)
		}
		if child != nil && child.kind != tar.TypeDir && child.kind != whiteoutKind {
			return nil, "", invalid(name, "its path leads through something that is not a folder")
		}
		real = append(append(real, '/'), part...)
		if child == nil || child.kind != tar.TypeDir {
			if err := p.count(name); err != nil {
				return nil, "", err
			}
			made, err := p.makeDir(at, part, string(real))
			if err != nil {
				return nil, "", err
			}
			child = made
		}
		at = child
	}
	return at, "/" + strings.TrimPrefix(string(real), "/"), nil
}

// makeDir returns the folder of a name, or makes one that replaces what is there. A folder that replaces a whiteout is opaque.
func (p *planner) makeDir(parent *planNode, name, real string) (*planNode, error) {
	found := parent.children[name]
	if found != nil && found.kind == tar.TypeDir {
		return found, nil
	}
	if err := checkLength(real, real); err != nil {
		return nil, err
	}
	if err := p.countText(real, len(real)); err != nil {
		return nil, err
	}
	dir := newDir()
	dir.dir.Opaque = found != nil && found.kind == whiteoutKind
	p.replace(parent, name, dir)
	return dir, nil
}

func (p *planner) setDir(dir *planNode, header *tar.Header) error {
	dirInfo := dirOf(header, dir.dir.Opaque)
	for key, value := range dirInfo.Xattrs {
		if err := p.countText(header.Name, len(key)+len(value)); err != nil {
			return err
		}
	}
	dir.dir = dirInfo
	return nil
}

func (p *planner) replace(parent *planNode, name string, node *planNode) {
	p.drop(parent.children[name])
	if parent.children == nil {
		parent.children = map[string]*planNode{}
	}
	parent.children[name] = node
}

func (p *planner) drop(node *planNode) {
	if node == nil {
		return
	}
	if node.entry >= 0 {
		p.plan.Dropped[node.entry] = true
	}
	for _, child := range node.children {
		p.drop(child)
	}
}
