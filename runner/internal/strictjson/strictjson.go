// Package strictjson decodes the JSON documents that the daemon sends to the launcher and to the guest.
//
// Decoding is strict, because both sides are built from one source and a difference between them is a bug: a field that is not known, a
// field that is missing and a null where a value is needed are errors. A field may be missing only if its tag has omitempty, and null
// only if it is a pointer. runner/LAUNCHER.md describes the documents; runner/testdata/launcher has an example of each.
package strictjson

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
)

// MaxBytes bounds a document, far above any real one.
const MaxBytes = 4 << 20

// Input is stdin, bounded.
func Input() *bufio.Reader {
	return bufio.NewReaderSize(io.LimitReader(os.Stdin, MaxBytes), 64<<10)
}

// ReadLine reads one line and decodes it.
func ReadLine(input *bufio.Reader, into any) error {
	line, err := input.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return fmt.Errorf("stdin ended before a job was read")
	}
	if err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	if err := Decode(line, into); err != nil {
		return fmt.Errorf("parse job: %w", err)
	}
	return nil
}

// Decode decodes one document.
func Decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if rest := bytes.TrimSpace(data[decoder.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("data after the document")
	}
	return check(reflect.TypeOf(into).Elem(), data, "")
}

var rawMessage = reflect.TypeOf(json.RawMessage{})

// check compares a document that was decoded into a type with the fields of that type.
func check(t reflect.Type, data json.RawMessage, path string) error {
	isNull := string(bytes.TrimSpace(data)) == "null"
	switch {
	case t.Kind() == reflect.Pointer && isNull:
		return nil
	case t.Kind() == reflect.Pointer:
		return check(t.Elem(), data, path)
	case isNull:
		return fmt.Errorf("%s is null", strings.TrimPrefix(path, "."))
	case t == rawMessage:
		return nil
	case t.Kind() == reflect.Struct:
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(data, &fields); err != nil {
			return err
		}
		return checkFields(t, fields, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		var items []json.RawMessage
		if err := json.Unmarshal(data, &items); err != nil {
			return err
		}
		for i, item := range items {
			if err := check(t.Elem(), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkFields(t reflect.Type, fields map[string]json.RawMessage, path string) error {
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			if err := checkFields(field.Type, fields, path); err != nil {
				return err
			}
			continue
		}
		if !field.IsExported() || name == "-" {
			continue
		}
		value, isThere := fields[name]
		if !isThere && options != "omitempty" {
			return fmt.Errorf("%s is missing", strings.TrimPrefix(path+"."+name, "."))
		}
		if isThere {
			if err := check(field.Type, value, path+"."+name); err != nil {
				return err
			}
		}
	}
	return nil
}
