// Routes of images.
import { z } from 'zod'
import * as images from '../schemas/images.ts'
import { Bytes, pulled, type RouteSchemas, stored } from './schemas.ts'

const imageRef = z.strictObject({ ref: images.ImageRef })

export const IMAGES_ROUTES = {
  listImages: { summary: 'List the images in the store', query: images.ImageQuery, reply: images.ImageList, errors: [] },
  getImage: { summary: 'Show an image', params: imageRef, reply: images.Image, errors: ['IMAGE_NOT_FOUND'] },
  deleteImage: {
    summary: 'Remove a name of an image; the last name removes the image, an id removes all names',
    params: imageRef,
    reply: images.ImageRemoved,
    errors: ['IMAGE_NOT_FOUND', 'IMAGE_IN_USE'],
  },
  pullImage: {
    summary: 'Pull an image from its registry into the store',
    body: images.PullRequest,
    reply: z.union([images.ImageProgress, images.Image]).describe('events: progress of each layer; then done or error'),
    errors: pulled,
  },
  importImage: {
    summary: 'Import the images of a docker save archive or an OCI layout (tar, optionally gzipped) into the store',
    query: images.ImportQuery,
    rawBody: 'application/x-tar',
    reply: z
      .union([images.ImageProgress, images.ImportDone])
      .describe('events after the whole body: progress; then done or error'),
    errors: ['IMAGE_NOT_ALLOWED', ...stored],
  },
  buildImage: {
    summary: 'Build an image from a Dockerfile. The body is a tar (optionally gzipped) with the Dockerfile and its files',
    query: images.BuildQuery,
    headers: images.BuildHeaders,
    rawBody: 'application/x-tar',
    reply: z
      .union([images.BuildStep, images.BuildOutput, images.ImageProgress, images.BuildDone])
      .describe('events after the whole body: step, output, progress; then done or error'),
    errors: [
      'IMAGE_BUILD_FAILED',
      'ARCHIVE_UNSAFE',
      'FILE_NOT_FOUND',
      'BODY_TOO_LARGE',
      'BACKEND_UNAVAILABLE',
      'TOO_MANY_WAITING',
      ...pulled,
    ],
  },
  hashImage: {
    summary: 'The content hash that a build of these files would have. The body is that of a build',
    query: images.HashQuery,
    headers: images.BuildHeaders,
    rawBody: 'application/x-tar',
    reply: images.BuildHash,
    errors: ['ARCHIVE_UNSAFE', 'FILE_NOT_FOUND', 'BODY_TOO_LARGE', 'IMAGE_NOT_FOUND', 'IMAGE_NOT_ALLOWED', 'IMAGE_TOO_LARGE'],
  },
  imageArchive: {
    summary: 'An image as a tar that importImage, docker load and other tools read: an OCI layout',
    params: imageRef,
    reply: Bytes,
    errors: ['IMAGE_NOT_FOUND'],
  },
} as const satisfies Record<string, RouteSchemas>
