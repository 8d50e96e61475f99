/** An Ethereum wallet, as far as sign-in needs one: a key, its address, and `personal_sign`. */
import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';

export interface TestWallet {
  /** In lower case. */
  readonly address: string;
  /** `personal_sign`: r, s and v (27 or 28) in hexadecimal. */
  sign(text: string): string;
}

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** A new one, or that of a secret key in hexadecimal. */
export function createTestWallet(secret?: string): TestWallet {
  const key = secret === undefined ? secp256k1.utils.randomSecretKey() : Buffer.from(secret, 'hex');
  const point = secp256k1.getPublicKey(key, false);
  return {
    address: `0x${hex(keccak_256(point.subarray(1)).subarray(-20))}`,
    sign(text) {
      const bytes = Buffer.from(text);
      const hash = keccak_256(
        Buffer.concat([Buffer.from(`\x19Ethereum Signed Message:\n${bytes.length}`), bytes]),
      );
      const [bit = 0, ...compact] = secp256k1.sign(hash, key, {
        prehash: false,
        format: 'recovered',
      });
      return `0x${hex(Uint8Array.from(compact))}${(bit + 27).toString(16)}`;
    },
  };
}
