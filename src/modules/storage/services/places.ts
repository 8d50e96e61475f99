/** Where contents lie on the store, and what their keys look like. */
import { storageErrors } from '../errors.ts';
import type { ObjectPlace } from '../providers/provider.ts';
import type { FileRow, StoredContent } from '../queries/files.ts';

/**
 * Never used twice. Two levels of folders, by the random end of the id, keep each of them small on a disk; 256 in all, so
 * that a young store does not make two for every file.
 */
export const keyOf = (fileId: string, generation: number): string =>
  `${fileId.slice(-1)}/${fileId.slice(-2, -1)}/${fileId}~${generation}`;

const ownKey = /^[0-9a-f]{1,2}\/[0-9a-f]{1,2}\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}~\d+$/;
/** The content that an object is, or was made of; undefined for what is not ours. */
export function contentKeyOf(key: string): string | undefined {
  const source = sourceOfRendition(key) ?? key;
  return ownKey.test(source) ? source : undefined;
}

/** Where the current content of a file lies. Throws FILE_PENDING where there is none. */
export function placeOf({ bucket, objectKey }: FileRow): ObjectPlace {
  if (bucket === null || objectKey === null) throw storageErrors.FILE_PENDING();
  return { bucket, key: objectKey };
}

/** The current content of a file. Throws FILE_PENDING where there is none. */
export const contentOf = (file: FileRow): StoredContent => {
  const { bucket, key } = placeOf(file);
  return {
    bucket,
    objectKey: key,
    size: file.size,
    mimeType: file.mimeType ?? 'application/octet-stream',
    checksum: file.checksum ?? undefined,
    etag: file.etag ?? key,
    scan: file.scan,
  };
};

/* Where renditions lie: in the bucket of their source, under its key. */

/** No file lies below it: their keys begin with an id. */
const PREFIX = '.renditions/';

/** Beginning of the keys of all renditions of one content. */
export const renditionPrefix = (objectKey: string): string => `${PREFIX}${objectKey}/`;

/** The key of the content that a rendition was made of; undefined for other keys. */
function sourceOfRendition(key: string): string | undefined {
  if (!key.startsWith(PREFIX)) return undefined;
  return key.slice(PREFIX.length, key.lastIndexOf('/'));
}
