/** Pictures in the size that an app shows. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import { imageFits, imageFormats } from '../images/render-task.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { binary, contentErrors, readableContent } from './files.ts';
import { FileParams, scopeField } from './shapes.ts';

const pixels = (what: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 4_096, description: `${what} in pixels` }));

const ImageQuery = Type.Object({
  ...scopeField,
  preset: Type.Optional(Type.String({ maxLength: 100, description: 'Name from `images.presets`' })),
  w: pixels('Width'),
  h: pixels('Height'),
  fit: Type.Optional(
    Type.Enum(imageFits, {
      description:
        'With both sides: `inside` them (default), `cover` them and cut, or `contain` with bars',
    }),
  ),
  format: Type.Optional(Type.Enum(imageFormats, { description: '`webp` unless given' })),
  quality: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, description: '80 unless given' }),
  ),
});

export const imageOperations = (services: StorageServices): readonly Operation[] => [
  image(services),
];

const image = (services: StorageServices): Operation =>
  defineOperation({
    surface: 'client',
    limit: standardLimit,
    id: 'storage.file.image',
    access: 'optionalUser',
    method: 'GET',
    path: '/storage/file/:id/image',
    heavy: true,
    account: { bytesOut: 64 * 1_048_576 },
    input: {
      params: FileParams,
      query: ImageQuery,
    },
    output: Type.Unknown(),
    streams: binary,
    errors: [
      storageErrors.FILE_NOT_PUBLIC,
      storageErrors.FILE_ACCESS_DENIED,
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_PENDING,
      storageErrors.IMAGE_UNSUPPORTED,
      storageErrors.PRESET_UNKNOWN,
      storageErrors.PRESET_REQUIRED,
      ...contentErrors,
    ],
    audit: services.config().audit.downloads,
    summary: 'Read a picture in another size or format',
    description:
      'Visitors name a preset. Turned as its camera says and without what the camera wrote into it; animated pictures come as they are.',
    async handler(context, { params, query: { scope, ...query } }) {
      const { caller } = context;
      const file = await readableContent(services, caller, { ...params, scope });
      const made = await services.renditions.of(caller, file, query);
      if (!made) return services.delivery.reply(file, { download: false, context });
      const { bytes, type, etag } = made;
      return Reply.bytes(type, async () => ({ bytes }), {
        etag: `"${etag}"`,
        'content-length': String(bytes.length),
        'cache-control': `${file.isPublic ? 'public' : 'private'}, max-age=0, must-revalidate`,
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; sandbox",
        ...(file.isPublic && { 'cross-origin-resource-policy': 'cross-origin' }),
      });
    },
  });
