/** How a caller is written down. */
import type { Caller } from '../caller.ts';

export interface Actor {
  readonly type: Caller['kind'];
  readonly id: string | null;
  readonly name: string | null;
  readonly tokenPrefix: string | null;
  readonly impersonatedBy: string | null;
}

const nobody = { id: null, name: null, tokenPrefix: null, impersonatedBy: null } as const;

export function actorOf(caller: Caller): Actor {
  switch (caller.kind) {
    case 'anonymous':
      return { ...nobody, type: 'anonymous' };
    case 'user':
      return { ...nobody, type: 'user', id: caller.userId, impersonatedBy: caller.impersonatedBy ?? null };
    case 'admin':
      return { ...nobody, type: 'admin', id: caller.adminId, name: caller.username, tokenPrefix: caller.tokenPrefix ?? null };
    case 'system':
      return { ...nobody, type: 'system', name: caller.reason };
  }
}
