/**
 * Ethereum addresses (EIP-55) and signatures over text (EIP-191, "personal_sign"). The curve and the hash
 * are loaded when the first wallet comes.
 */

/** The address in lower case; nothing for what is none, and for one whose mixed case does not fit (a typing error). */
export async function readAddress(text: string): Promise<string | undefined> {
  if (!/^0x[0-9a-fA-F]{40}$/.test(text)) return undefined;
  const digits = text.slice(2);
  const lower = digits.toLowerCase();
  const isMixed = digits !== lower && digits !== digits.toUpperCase();
  return isMixed && (await checksummed(`0x${lower}`)) !== text ? undefined : `0x${lower}`;
}

/** A lower-case address as people see it: the case of its letters is a checksum. */
export async function checksummed(address: string): Promise<string> {
  const digits = address.slice(2);
  const hash = Buffer.from(await keccak(Buffer.from(digits))).toString('hex');
  return `0x${[...digits].map((digit, i) => (Number.parseInt(hash.charAt(i), 16) >= 8 ? digit.toUpperCase() : digit)).join('')}`;
}

/** r, s and the recovery bit: `0` and `1`, which most wallets write as 27 and 28. */
const signatureShape = /^0x([0-9a-f]{128})(00|01|1b|1c)$/i;

/** The lower-case address whose key signed the text; nothing for what is no signature in its one canonical form. */
export async function signerOf(text: string, signature: string): Promise<string | undefined> {
  const [, compact, v] = signatureShape.exec(signature) ?? [];
  if (compact === undefined || v === undefined) return undefined;
  const { secp256k1 } = await import('@noble/curves/secp256k1.js');
  const hash = await keccak(asSigned(text));
  try {
    const parsed = secp256k1.Signature.fromBytes(Buffer.from(compact, 'hex'), 'compact');
    if (parsed.hasHighS()) return undefined;
    const recovery = Number.parseInt(v, 16) % 27;
    const key = parsed.addRecoveryBit(recovery).recoverPublicKey(hash).toBytes(false);
    return await addressOf(key);
  } catch {
    // Numbers outside the group belong to no key.
    return undefined;
  }
}

/** The address of an uncompressed public key (65 bytes, the first says "uncompressed"): the end of its hash. */
const addressOf = async (publicKey: Uint8Array): Promise<string> =>
  `0x${Buffer.from((await keccak(publicKey.subarray(1))).subarray(-20)).toString('hex')}`;

/** What wallets put before a text, so that no signature over one is worth anything as a transaction. */
function asSigned(text: string): Uint8Array {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`), bytes]);
}

async function keccak(bytes: Uint8Array): Promise<Uint8Array> {
  const { keccak_256 } = await import('@noble/hashes/sha3.js');
  return keccak_256(bytes);
}
