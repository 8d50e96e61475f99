/** Pictures in other sizes and formats (specification storage.md 5.10): made once, then kept on the store beside their source. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { Caller } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import type { ImageOptions } from '../images/render-task.ts';
import { createRenderer } from '../images/renderer.ts';
import type { ObjectPlace } from '../providers/provider.ts';
import type { FileRow } from '../queries/files.ts';
import type { Delivery } from './delivery.ts';
import { placeOf, renditionPrefix } from './naming.ts';
import { isMissingObject, publicError, type StorageParts } from './storage-parts.ts';

export interface ImageRequest extends Partial<ImageOptions> {
  readonly preset?: string | undefined;
}

export interface Rendition {
  readonly bytes: Buffer;
  readonly type: string;
  /** Without quotes. */
  readonly etag: string;
}

export interface Renditions {
  /** Undefined: an animated picture, which is shown as it is. The caller may read the file. Throws 400 for what is no picture. */
  of(caller: Caller, file: FileRow, request: ImageRequest): Promise<Rendition | undefined>;
  close(): void;
}

/** Types whose decoders stand on their own. */
const rendered: ReadonlySet<string> = new Set([
  'image/jpeg',
  'image/png',
  'image/apng',
  'image/webp',
  'image/avif',
  'image/gif',
  'image/tiff',
  'image/heic',
]);

export function createRenditions(parts: StorageParts, delivery: Delivery): Renditions {
  const { provider, config, log } = parts;
  const renderer = createRenderer();
  const underWay = new Map<string, Promise<Buffer | undefined>>();

  const kept = async (place: ObjectPlace): Promise<Buffer | undefined> => {
    try {
      return await buffer(await (await provider()).get(place));
    } catch (error) {
      if (isMissingObject(error)) return undefined;
      throw publicError(error, log);
    }
  };

  const make = async (
    file: FileRow,
    options: ImageOptions,
    place: ObjectPlace,
  ): Promise<Buffer | undefined> => {
    const there = await kept(place);
    if (there) return there;
    const { maxSourceBytes, maxPixels } = config().images;
    const answer = await renderer.render(() => delivery.bytes(file, maxSourceBytes), {
      options,
      maxPixels,
    });
    if (answer.outcome === 'animated') return undefined;
    if (answer.outcome === 'refused') throw storageErrors.IMAGE_UNSUPPORTED();
    const bytes = Buffer.from(answer.data);
    const attributes = { contentType: `image/${options.format}`, size: bytes.length };
    // Whoever asks next makes it again when it cannot be kept.
    await (await provider())
      .put(place, Readable.from([bytes]), attributes)
      .catch((error: unknown) => log.warn({ err: error }, 'A rendition could not be kept'));
    return bytes;
  };

  return {
    close: () => renderer.close(),
    async of(caller, file, request) {
      const options = optionsOf(request, config().images.presets, caller);
      if (!rendered.has(file.mimeType ?? '')) throw storageErrors.IMAGE_UNSUPPORTED();
      if (file.size > config().images.maxSourceBytes) throw storageErrors.IMAGE_UNSUPPORTED();
      const { bucket, key } = placeOf(file);
      const hash = hashOf(options);
      const place = { bucket, key: `${renditionPrefix(key)}${hash}.${options.format}` };
      // Many that ask at once wait for one.
      const name = `${bucket}/${place.key}`;
      const made = underWay.get(name) ?? make(file, options, place);
      underWay.set(name, made);
      const bytes = await made.finally(() => underWay.delete(name));
      const etag = `${file.etag ?? key}-${hash}`;
      return bytes && { bytes, type: `image/${options.format}`, etag };
    },
  };
}

type Presets = Readonly<Record<string, Partial<ImageOptions>>>;

const usual = { fit: 'inside', format: 'webp', quality: 80 } as const;

/** Throws 400 for an unknown preset, and 403 for visitors who ask for more than presets: the store would fill up. */
function optionsOf(
  { preset, ...own }: ImageRequest,
  presets: Presets,
  caller: Caller,
): ImageOptions {
  const all = new Map(Object.entries(presets));
  const found = preset === undefined ? undefined : all.get(preset);
  if (preset !== undefined && !found)
    throw storageErrors.PRESET_UNKNOWN({
      errors: [{ path: 'preset', rule: 'enum', message: `one of ${[...all.keys()].join(', ')}` }],
    });
  const options = { ...usual, ...found, ...defined(own) };
  if (caller.kind !== 'anonymous') return options;
  const requested = hashOf(options);
  if ([...all.values()].some((one) => hashOf({ ...usual, ...one }) === requested)) return options;
  throw storageErrors.PRESET_REQUIRED();
}

const defined = (request: Partial<ImageOptions>): Partial<ImageOptions> =>
  Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));

const hashOf = ({ w, h, fit, format, quality }: ImageOptions): string =>
  createHash('sha256')
    .update(JSON.stringify([w ?? null, h ?? null, fit, format, quality]))
    .digest('hex')
    .slice(0, 24);
