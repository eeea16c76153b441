package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Fields is a JSON object to be sent to a client.
type Fields = map[string]any

// An Error is a failure that is reported to the client. Its code and the fields of its detail are a row of the
// contract's ERRORS table.
type Error struct {
	Code    string
	Message string
	Detail  Fields
}

func NewError(code, message string, detail Fields) *Error {
	return &Error{code, message, detail}
}

func (e *Error) Error() string { return e.Message }

// The codes that the runner sends; errors_test.go compares them with the contract.
const (
	CodeInvalidRequest   = "INVALID_REQUEST"
	CodeUnauthorized     = "UNAUTHORIZED"
	CodePermissionDenied = "PERMISSION_DENIED"
	CodeShellNotFound    = "SHELL_NOT_FOUND"
	CodeProcessNotFound  = "PROCESS_NOT_FOUND"
	CodeFileNotFound     = "FILE_NOT_FOUND"
	CodeShellExists      = "SHELL_EXISTS"
	CodeFileExists       = "FILE_EXISTS"
	CodeNotEmpty         = "NOT_EMPTY"
	CodeShellExited      = "SHELL_EXITED"
	CodePathOutside      = "PATH_OUTSIDE_WORKSPACE"
	CodeIsADirectory     = "IS_A_DIRECTORY"
	CodeNotADirectory    = "NOT_A_DIRECTORY"
	CodeNotAFile         = "NOT_A_FILE"
	CodeArchiveUnsafe    = "ARCHIVE_UNSAFE"
	CodeBodyTooLarge     = "BODY_TOO_LARGE"
	CodeRangeUnmet       = "RANGE_NOT_SATISFIABLE"
	CodePortClosed       = "PORT_CLOSED"
	CodeSlowReader       = "SLOW_READER"
	CodeDiskFull         = "DISK_FULL"
	CodeUnsupported      = "UNSUPPORTED"
	CodeTooManyWaiting   = "TOO_MANY_WAITING"
	CodeInternal         = "INTERNAL"
)

// Invalid is the error of a request that violates the protocol.
func Invalid(format string, args ...any) *Error {
	issue := fmt.Sprintf(format, args...)
	return NewError(CodeInvalidRequest, issue, Fields{"issue": issue})
}

// TooManyWaiting is the error of a request that would wait behind too many others.
func TooManyWaiting(what string, limit int) *Error {
	return NewError(CodeTooManyWaiting, fmt.Sprintf("too many %s (the limit is %d); try again later", what, limit), Fields{"what": what, "limit": limit})
}

// Unsupported is the error of a feature that this sandbox does not have.
func Unsupported(what string) *Error {
	return NewError(CodeUnsupported, "not supported here: "+what, Fields{"what": what})
}

// pathErrors maps the errno of a file call to a code and the text before the path.
var pathErrors = map[syscall.Errno]struct{ code, text string }{
	syscall.ENOENT:    {CodeFileNotFound, "no such file or directory"},
	syscall.EACCES:    {CodePermissionDenied, "permission denied"},
	syscall.EPERM:     {CodePermissionDenied, "permission denied"},
	syscall.EROFS:     {CodePermissionDenied, "read-only filesystem"},
	syscall.EEXIST:    {CodeFileExists, "already exists"},
	syscall.ENOTEMPTY: {CodeNotEmpty, "directory not empty"},
	syscall.EISDIR:    {CodeIsADirectory, "is a directory"},
	syscall.ENOTDIR:   {CodeNotADirectory, "not a directory"},
	syscall.ENOSPC:    {CodeDiskFull, "no space left in the sandbox"},
	syscall.EDQUOT:    {CodeDiskFull, "no space left in the sandbox"},
	syscall.EXDEV:     {CodePathOutside, "path is not accessible through the file API"},
	syscall.ELOOP:     {CodePathOutside, "path is not accessible through the file API"},
}

// PathError turns the failure of a call on path into an Error. An error that already has a code is returned
// unchanged.
func PathError(path string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if row, ok := pathErrors[errno]; ok {
			return NewError(row.code, row.text+": "+path, Fields{"path": path})
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return NewError(CodeFileNotFound, "no such file or directory: "+path, Fields{"path": path})
	}
	return fmt.Errorf("%s: %w", path, err)
}

// asError gives an error without a code the code INTERNAL.
func asError(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return NewError(CodeInternal, err.Error(), Fields{"message": err.Error()})
}

// ErrorFields are the fields of an error message.
func ErrorFields(err error) Fields {
	e := asError(err)
	detail := e.Detail
	if detail == nil {
		detail = Fields{}
	}
	return Fields{"code": e.Code, "message": e.Message, "detail": detail}
}

// CodeOf is the code of an Error; empty for other errors.
func CodeOf(err error) string {
	var known *Error
	if errors.As(err, &known) {
		return known.Code
	}
	return ""
}
