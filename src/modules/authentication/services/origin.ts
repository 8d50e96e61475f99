/** Where requests come from, as sessions remember it. */

import { anonymousApp } from '../../../kernel/apps.ts';
import { cutText, storable } from '../../../kernel/text.ts';

/** Address, browser and app of a request. */
export interface Origin {
  readonly address: string;
  readonly userAgent: string | undefined;
  /** The registered app that the request comes from; absent or `anonymous-client` while apps are not told apart. */
  readonly clientId?: string;
}

/** The app of the sessions that a request opens. */
export const clientOf = ({ clientId = anonymousApp }: Origin): string => clientId;

/** Whether a request may go on with a session: with its app, where apps are told apart. */
export const isOwnApp = ({ clientId = anonymousApp }: Origin, session: { readonly clientId: string }): boolean =>
  clientId === anonymousApp || clientId === session.clientId;

const maxUserAgentLength = 512;

/** The user agent as it is stored: bounded, without control characters. */
export const storedUserAgent = (userAgent: string | undefined): string | null =>
  userAgent === undefined ? null : storable(cutText(userAgent, maxUserAgentLength)).replace(/\p{Cc}/gu, ' ');
