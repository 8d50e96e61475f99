/** Which bytes of a content are asked for (RFC 9110 section 14). */
import { storageErrors } from '../errors.ts';
import type { ByteRange } from '../providers/provider.ts';

/**
 * The one range of a header; nothing where the whole is to be answered: no header, another unit, a malformed one, or
 * several ranges. Throws RANGE_NOT_SATISFIABLE.
 */
export function rangeOf(header: string | undefined, size: number): ByteRange | undefined {
  const found = /^bytes=[ \t]*(\d{0,15})-(\d{0,15})[ \t]*$/i.exec(header ?? '');
  if (!found) return undefined;
  const [, first = '', last = ''] = found;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw unsatisfiable(size);
    return { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= size) throw unsatisfiable(size);
  return { start, end };
}

const unsatisfiable = (size: number) =>
  storageErrors.RANGE_NOT_SATISFIABLE({ headers: { 'content-range': `bytes */${size}` } });
