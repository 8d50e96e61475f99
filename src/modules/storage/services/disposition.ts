/** How a browser is told what to do with a content: show it or keep it, and under which name (RFC 6266, RFC 8187). */

/** Types that browsers show without running anything in them. An allow-list: whatever is not here is only downloaded. */
const inlineTypes = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
  'audio/mpeg',
  'audio/mp4',
  'audio/ogg',
  'audio/wav',
  'audio/webm',
  'audio/flac',
  'audio/aac',
  'video/mp4',
  'video/webm',
  'video/ogg',
  'video/quicktime',
  'text/plain',
  'application/pdf',
]);

export const isInline = (mimeType: string): boolean => inlineTypes.has(mimeType);

/** The value of `Content-Disposition`. Old readers get a name in ASCII, the others the real one. */
export function dispositionOf(kind: 'inline' | 'attachment', name: string): string {
  const ascii = name.normalize('NFKD').replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const plain = `${kind}; filename="${ascii}"`;
  if (ascii === name) return plain;
  return `${plain}; filename*=UTF-8''${encoded(name)}`;
}

const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
