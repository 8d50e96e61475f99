/**
 * Registration and sign-in by the signature of an Ethereum wallet. The text to sign is ours, works once, for
 * one address and for minutes. Asking for it looks at no account and makes none: whose an address is, or
 * becomes, is decided once the signature came back, as for an account at any other provider.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import { walletProvider } from '../../strategies.ts';
import { registeredCaller, requireRecentLogin } from '../caller-checks.ts';
import type { Origin } from '../origin.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';
import type { Owners } from './account-owners.ts';

/*
 * The text that a wallet shows and signs (EIP-4361, "Sign-In with Ethereum"). It names where the person signs in and
 * until when: a page that relays the text of another app has a wallet that warns (W23).
 */

interface SignInText {
  /** Where the app runs: `https://app.example.com`. */
  readonly origin: string;
  /** With its checksum. */
  readonly address: string;
  readonly chainId: number;
  /** Letters and digits. */
  readonly nonce: string;
  readonly issuedAt: Date;
  readonly lifetimeMs: number;
}

const signInText = ({
  origin,
  address,
  chainId,
  nonce,
  issuedAt,
  lifetimeMs,
}: SignInText): string =>
  [
    `${new URL(origin).host} wants you to sign in with your Ethereum account:`,
    address,
    '',
    'This signs you in. It costs nothing and moves nothing.',
    '',
    `URI: ${origin}`,
    'Version: 1',
    `Chain ID: ${chainId}`,
    `Nonce: ${nonce}`,
    `Issued At: ${issuedAt.toISOString()}`,
    `Expiration Time: ${new Date(issuedAt.getTime() + lifetimeMs).toISOString()}`,
  ].join('\n');

/*
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

interface WalletChallenge {
  readonly nonce: string;
  /** What the wallet signs. */
  readonly message: string;
}

interface WalletProof {
  readonly ethPublicAddress: string;
  /** Hexadecimal, 65 bytes. */
  readonly signature: string;
  /** Which text was signed; unless set, the one that was asked for last. */
  readonly nonce?: string | undefined;
  /** For a new account. */
  readonly invitationToken?: string | undefined;
}

interface WalletSignIn {
  /** A text to sign, the same for every address. Throws 400 for what is no address. */
  challenge(ethPublicAddress: string): Promise<WalletChallenge>;
  /**
   * Signs in whoever has the address, else makes an account (or registers the anonymous caller). A registered
   * caller gets the address as one more way in, after a fresh sign-in. Throws 400 for what is no address, 401 for a
   * signature that does not fit, 409 when the address is somebody else's, and what account creation throws.
   */
  authenticate(caller: Caller, proof: WalletProof, origin: Origin): Promise<LoginAnswer>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly tokens: OneTimeTokens;
  readonly owners: Owners;
  readonly signIn: SignIn;
  /** Where browsers reach the platform. */
  readonly publicUrl: () => string;
  readonly config: () => AuthenticationConfig;
}

/** Nobody vouches for an e-mail address here, so an address of Ethereum joins no account by itself. */
const settings = { name: walletProvider, accountLinking: false } as const;
const purpose = 'wallet-challenge';
/** In hexadecimal, since EIP-4361 wants letters and digits. */
const nonceBytes = 16;

export function createWalletSignIn(dependencies: Dependencies): WalletSignIn {
  const { database, tokens, owners, signIn, config } = dependencies;
  /** The token of the text that the address has signed. A signature that does not fit uses nothing up: anybody can send one. */
  const signedToken = async (address: string, proof: WalletProof): Promise<string | undefined> => {
    const nonce = proof.nonce ?? (await tokens.newest(database, purpose, address))?.data.nonce;
    if (typeof nonce !== 'string') return undefined;
    const token = tokenOf(address, nonce);
    const message = (await tokens.peek(database, purpose, token))?.data.message;
    const isSigned =
      typeof message === 'string' && (await signerOf(message, proof.signature)) === address;
    return isSigned ? token : undefined;
  };

  /** Joins the ambient transaction. */
  const ownerOf = async (caller: Caller, arrival: Arrival): Promise<string> => {
    const profile = { subject: arrival.address, emailVerified: false };
    if (arrival.registered) {
      await owners.link(arrival.registered, settings, profile, arrival.registered.userId);
      return arrival.registered.userId;
    }
    const anonymousUserId = caller.kind === 'user' ? caller.userId : undefined;
    return owners.ownerOf(caller, settings, profile, { ...arrival, anonymousUserId });
  };

  /** Uses the text up and does what it is good for, all or nothing. */
  const redeem = (token: string, caller: Caller, arrival: Arrival): Promise<string | undefined> =>
    database.transaction(async (transaction) =>
      (await tokens.consume(transaction, purpose, token)) ? ownerOf(caller, arrival) : undefined,
    );

  return {
    challenge: (ethPublicAddress) => challenge(dependencies, ethPublicAddress),
    async authenticate(caller, proof, origin) {
      const address = await requireAddress(proof.ethPublicAddress);
      const registered = await registeredCaller(database, caller);
      if (registered) requireRecentLogin(registered, config().sessions.sudoMaxAge);
      const token = await signedToken(address, proof);
      const arrival = { address, registered, invitationToken: proof.invitationToken, origin };
      const userId = token === undefined ? undefined : await redeem(token, caller, arrival);
      if (userId === undefined) {
        await signIn.refused({ strategy: walletProvider, outcome: 'wrong', origin });
        throw externalErrors.WALLET_REFUSED();
      }
      return signIn.openById(
        userId,
        origin,
        walletProvider,
        registered ? 'bothFactors' : 'oneFactor',
      );
    },
  };
}

async function challenge(
  { config, publicUrl, tokens, database }: Dependencies,
  ethPublicAddress: string,
): Promise<WalletChallenge> {
  const address = await requireAddress(ethPublicAddress);
  const { origin, chainId, nonceLifetime: lifetimeMs } = config().metamask;
  const nonce = randomBytes(nonceBytes).toString('hex');
  const message = signInText({
    origin: origin === '' ? new URL(publicUrl()).origin : origin,
    address: await checksummed(address),
    chainId,
    nonce,
    issuedAt: new Date(),
    lifetimeMs,
  });
  const token = tokenOf(address, nonce);
  await tokens.issue(database, {
    purpose,
    subject: address,
    token,
    data: { nonce, message },
    lifetimeMs,
  });
  return { nonce, message };
}

interface Arrival {
  readonly address: string;
  /** Who is signed in already and no anonymous user. */
  readonly registered: UserCaller | undefined;
  readonly invitationToken: string | undefined;
  readonly origin: Origin;
}

/** A text belongs to its address: the nonce of one finds nothing for another. */
const tokenOf = (address: string, nonce: string): string =>
  createHash('sha256').update(`wallet-sign-in\n${address}\n${nonce}`).digest('base64url');

async function requireAddress(text: string): Promise<string> {
  const address = await readAddress(text);
  if (address !== undefined) return address;
  const message =
    'write 0x and 40 hexadecimal digits, in lower case or with the checksum of EIP-55';
  throw externalErrors.WALLET_ADDRESS_INVALID({
    errors: [{ path: 'ethPublicAddress', rule: 'format', message }],
  });
}
