/** Where renditions lie: in the bucket of their source, under its key. */

/** No file lies below it: their keys begin with an id. */
const PREFIX = '.renditions/';

/** Beginning of the keys of all renditions of one content. */
export const renditionPrefix = (objectKey: string): string => `${PREFIX}${objectKey}/`;

/** The key of the content that a rendition was made of; undefined for other keys. */
export function sourceOfRendition(key: string): string | undefined {
  if (!key.startsWith(PREFIX)) return undefined;
  return key.slice(PREFIX.length, key.lastIndexOf('/'));
}
