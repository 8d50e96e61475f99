/** Random tokens and the two ways in which they are compared. Nothing here is for passwords. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** A new unguessable token, base64url. 32 bytes are 256 bits, far beyond guessing. */
export const randomToken = (bytes = 32): string => randomBytes(bytes).toString('base64url');

/** SHA-256 in hex: how a high-entropy token is stored, so that a stolen table opens nothing. */
export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Compares two secrets in a time that does not depend on where they differ, nor on their lengths. */
export function sameSecret(left: string, right: string): boolean {
  const [a, b] = [left, right].map((text) => createHash('sha256').update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}
