/**
 * Registration and sign-in by the signature of an Ethereum wallet. The text to sign is ours, works once, for
 * one address and for minutes. Asking for it looks at no account and makes none: whose an address is, or
 * becomes, is decided once the signature came back, as for an account at any other provider.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../external-errors.ts';
import type { Owners } from '../external/owners.ts';
import type { OneTimeTokens } from '../one-time-tokens.ts';
import type { Origin } from '../origin.ts';
import { registeredCaller } from '../own-account.ts';
import type { LoginAnswer, SignIn } from '../sign-in.ts';
import { requireSudo } from '../sudo.ts';
import { checksummed, readAddress, signerOf } from './ethereum.ts';
import { walletProvider } from './provider.ts';
import { signInText } from './sign-in-text.ts';

export interface WalletChallenge {
  readonly nonce: string;
  /** What the wallet signs. */
  readonly message: string;
}

export interface WalletProof {
  readonly ethPublicAddress: string;
  /** Hexadecimal, 65 bytes. */
  readonly signature: string;
  /** Which text was signed; unless set, the one that was asked for last. */
  readonly nonce?: string | undefined;
  /** For a new account. */
  readonly invitationToken?: string | undefined;
}

export interface WalletSignIn {
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

export function createWalletSignIn({ database, tokens, owners, signIn, publicUrl, config }: Dependencies): WalletSignIn {
  /** The token of the text that the address has signed. A signature that does not fit uses nothing up: anybody can send one. */
  const signedToken = async (address: string, proof: WalletProof): Promise<string | undefined> => {
    const nonce = proof.nonce ?? (await tokens.newest(database, purpose, address))?.data.nonce;
    if (typeof nonce !== 'string') return undefined;
    const token = tokenOf(address, nonce);
    const message = (await tokens.peek(database, purpose, token))?.data.message;
    const isSigned = typeof message === 'string' && (await signerOf(message, proof.signature)) === address;
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
    async challenge(ethPublicAddress) {
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
      await tokens.issue(database, { purpose, subject: address, token, data: { nonce, message }, lifetimeMs });
      return { nonce, message };
    },
    async authenticate(caller, proof, origin) {
      const address = await requireAddress(proof.ethPublicAddress);
      const registered = await registeredCaller(database, caller);
      if (registered) requireSudo(registered, config().sessions.sudoMaxAge);
      const token = await signedToken(address, proof);
      const arrival = { address, registered, invitationToken: proof.invitationToken, origin };
      const userId = token === undefined ? undefined : await redeem(token, caller, arrival);
      if (userId === undefined) {
        await signIn.refused({ strategy: walletProvider, outcome: 'wrong', origin });
        throw externalErrors.WALLET_REFUSED();
      }
      return signIn.openById(userId, origin, walletProvider, registered ? 'bothFactors' : 'oneFactor');
    },
  };
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
  const message = 'write 0x and 40 hexadecimal digits, in lower case or with the checksum of EIP-55';
  throw externalErrors.WALLET_ADDRESS({ errors: [{ path: 'ethPublicAddress', rule: 'format', message }] });
}
