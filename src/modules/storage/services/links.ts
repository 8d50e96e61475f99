/**
 * Addresses of contents. They lead through the platform, never to the store: `/storage/blob/<file>`, with a signature
 * where the file is private. The signature covers the method, the file and all that the link decides, in one form.
 */
import { createHmac } from 'node:crypto';
import { sameSecret } from '../../../kernel/security/tokens.ts';
import type { StorageConfig } from '../config.ts';
import { storageErrors } from '../errors.ts';
import type { FileRow } from '../queries/files.ts';

/** What a signed link to a content says. */
export interface ReadLink {
  readonly fileId: string;
  /** Seconds since the epoch. */
  readonly expires: number;
  readonly download: boolean;
}

export interface WriteLink {
  readonly fileId: string;
  readonly uploadId: string;
  /** Seconds since the epoch. */
  readonly expires: number;
}

export interface Links {
  /** The address of a link that is kept (shared-links.ts). */
  sharedUrl(token: string): string;
  /** The lasting address of a public file. */
  publicUrl(file: Pick<FileRow, '_id' | 'container'>): string;
  /** A link that lets everybody read the file: for a while, or, of a public one, for good. */
  readUrl(file: Pick<FileRow, '_id' | 'container' | 'isPublic'>, download: boolean): string;
  /** Throws SIGNATURE_INVALID. */
  checkRead(link: ReadLink, signature: string): void;
  writeUrl(fileId: string, uploadId: string): { readonly url: string; readonly expiresAt: Date };
  checkWrite(link: WriteLink, signature: string): void;
  /** The address where clients ask for the public address of a file. */
  askUrl(fileId: string): string;
}

interface Dependencies {
  readonly config: () => StorageConfig;
  /** Public address of the client surface. */
  readonly clientUrl: () => string;
  /** Key of this installation. */
  readonly ownKey: string;
}

export function createLinks({ config, clientUrl, ownKey }: Dependencies): Links {
  const sign = (parts: readonly (string | number | boolean)[]): string =>
    createHmac('sha256', config().local.signingSecret || ownKey)
      .update(parts.join('\n'))
      .digest('hex');
  const readParts = ({ fileId, expires, download }: ReadLink) =>
    ['GET', fileId, expires, download] as const;
  const writeParts = ({ fileId, uploadId, expires }: WriteLink) =>
    ['PUT', fileId, uploadId, expires] as const;
  const check = (expires: number, parts: readonly (string | number | boolean)[], given: string) => {
    if (!sameSecret(sign(parts), given) || expires * 1_000 <= Date.now())
      throw storageErrors.SIGNATURE_INVALID();
  };
  const base = (): string => config().local.httpBaseUrl.replace(/\/$/, '') || clientUrl();
  const blobUrl = ({ _id, container }: Pick<FileRow, '_id' | 'container'>): string => {
    const cdn = config().cdnConfiguration[container];
    return `${cdn ? cdnBase(cdn) : base()}/storage/blob/${_id}`;
  };
  return {
    publicUrl: blobUrl,
    readUrl(file, download) {
      if (file.isPublic) return `${blobUrl(file)}${download ? '?download=true' : ''}`;
      const link = { fileId: file._id, download, expires: inSeconds(config().download.urlExpiry) };
      const query = new URLSearchParams({
        expires: String(link.expires),
        sig: sign(readParts(link)),
      });
      if (download) query.set('download', 'true');
      return `${blobUrl(file)}?${query}`;
    },
    checkRead: (link, signature) => check(link.expires, readParts(link), signature),
    writeUrl(fileId, uploadId) {
      const expires = inSeconds(config().upload.urlExpiry);
      const sig = sign(writeParts({ fileId, uploadId, expires }));
      const query = new URLSearchParams({ upload: uploadId, expires: String(expires), sig });
      return {
        url: `${base()}/storage/blob/${fileId}?${query}`,
        expiresAt: new Date(expires * 1_000),
      };
    },
    checkWrite: (link, signature) => check(link.expires, writeParts(link), signature),
    sharedUrl: (token) => `${base()}/storage/link/${token}`,
    askUrl: (fileId) => `${clientUrl()}/storage/getUrl/${fileId}`,
  };
}

const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1_000) + seconds;

/** A host stands for `https://<host>`. */
const cdnBase = (host: string): string =>
  (/^https?:\/\//.test(host) ? host : `https://${host}`).replace(/\/$/, '');
