/**
 * The thread that computes password hashes. It gives way to every other thread of the machine: a hash takes about 10 ms of
 * a processor, and a flood of logins must leave the processors to those who only want a record.
 */
import { hashSync, type Options, verifySync } from '@node-rs/argon2';
import { giveWay } from '../threads/serve-calls.ts';

giveWay();

/** What goes into the thread; text, because a buffer would be copied into one that is shared by others. */
export interface HashTask {
  readonly password: string;
  readonly parameters: Options;
}

export interface VerifyTask {
  readonly stored: string;
  readonly password: string;
}

export const hashPassword = ({ password, parameters }: HashTask): string =>
  hashSync(password, parameters);

/** Throws when `stored` is not a hash. */
export const verifyPassword = ({ stored, password }: VerifyTask): boolean =>
  verifySync(stored, password);
