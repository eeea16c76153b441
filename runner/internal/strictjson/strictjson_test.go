package strictjson

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
)

type inner struct {
	Size int `json:"size"`
}

type base struct {
	Pid int `json:"pid"`
}

type document struct {
	base
	Name    string          `json:"name"`
	Maybe   *inner          `json:"maybe"`
	Absent  *inner          `json:"absent,omitempty"`
	List    []inner         `json:"list"`
	Raw     json.RawMessage `json:"raw"`
	Bytes   []byte          `json:"bytes"`
	private int
}

const whole = `{"pid":1,"name":"n","maybe":null,"list":[{"size":2}],"raw":{"any":[1]},"bytes":"aGk="}`

func TestAWholeDocumentIsDecoded(t *testing.T) {
	d := &document{}
	if err := Decode([]byte(whole), d); err != nil {
		t.Fatal(err)
	}
	if d.Pid != 1 || d.Name != "n" || d.Maybe != nil || len(d.List) != 1 || d.List[0].Size != 2 || string(d.Raw) != `{"any":[1]}` || string(d.Bytes) != "hi" {
		t.Errorf("%+v", d)
	}
}

func TestADocumentThatDiffersFromItsTypeIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"an unknown field":               {`"name"`, `"nick":1,"name"`, "unknown field"},
		"an unknown field further in":    {`{"size":2}`, `{"size":2,"more":1}`, "unknown field"},
		"a missing field":                {`"name":"n",`, ``, "name is missing"},
		"a missing field of an embedded": {`"pid":1,`, ``, "pid is missing"},
		"a missing field further in":     {`{"size":2}`, `{}`, "list[0].size is missing"},
		"a missing pointer":              {`"maybe":null,`, ``, "maybe is missing"},
		"a field in other letters":       {`"name":"n"`, `"Name":"n"`, "name is missing"},
		"null for text":                  {`"name":"n"`, `"name":null`, "name is null"},
		"null for a list":                {`[{"size":2}]`, `null`, "list is null"},
		"null for any document":          {`{"any":[1]}`, `null`, "raw is null"},
		"a number for text":              {`"n"`, `5`, "cannot unmarshal number"},
		"a fraction for a number":        {`"size":2`, `"size":2.5`, "cannot unmarshal number"},
		"a second document":              {`"aGk="}`, `"aGk="} {}`, "data after the document"},
		"half a document":                {`"aGk="}`, `"aGk="`, "unexpected EOF"},
	} {
		text := strings.Replace(whole, c.from, c.to, 1)
		if err := Decode([]byte(text), &document{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestReadLineTakesOneLine(t *testing.T) {
	input := bufio.NewReader(strings.NewReader(`{"size":1}` + "\n" + `{"size":2}` + "\n"))
	for want := 1; want <= 2; want++ {
		got := &inner{}
		if err := ReadLine(input, got); err != nil || got.Size != want {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	if err := ReadLine(input, &inner{}); err == nil || !strings.Contains(err.Error(), "ended before a job") {
		t.Errorf("at the end: %v", err)
	}
	if err := ReadLine(bufio.NewReader(strings.NewReader(`{"size":1}`)), &inner{}); err == nil {
		t.Error("a line without its end was accepted")
	}
}
