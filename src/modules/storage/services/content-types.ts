/** Which type a content has, and whether its container takes it. */
import { storageErrors } from '../errors.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { sniffContentType } from './sniffing.ts';

/** Throws UNSUPPORTED_TYPE. */
export async function contentTypeOf(
  head: Buffer,
  name: string,
  hint: string | undefined,
  { allowedMimeTypes }: Pick<ContainerRow, 'allowedMimeTypes'>,
): Promise<string> {
  const type = await sniffContentType(head, name, hint);
  if (allowedMimeTypes === null || allowedMimeTypes.some((one) => covers(one, type))) return type;
  throw storageErrors.UNSUPPORTED_TYPE({ message: `The container does not take ${type}` });
}

/** `image/*` covers all images. */
const covers = (pattern: string, type: string): boolean =>
  pattern === '*/*' ||
  pattern === type ||
  (pattern.endsWith('/*') && type.startsWith(pattern.slice(0, -1)));
