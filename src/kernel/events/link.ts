/**
 * Knows whether this node receives what others send. It trusts no connection
 * state alone: with each heartbeat the node sends itself a message, and one that
 * does not come back counts as a loss.
 */
import type { Logger } from '../telemetry/logger.ts';
import { deadAfterMs, type NodeRegistry } from './nodes.ts';

export interface LinkOptions {
  readonly registry: NodeRegistry;
  readonly log: Logger;
  /** Milliseconds between heartbeats. */
  readonly heartbeatMs: number;
  /** Sends a message to this very node. */
  readonly probe: () => Promise<void>;
  /** Messages may have been missed: forget what was cached. */
  readonly onGap: () => void;
}

export interface Link {
  /** Registers the node and starts the heartbeat. Call it once messages are received. */
  start(): Promise<void>;
  up(): boolean;
  /** What the transport says about its connection. */
  changed(connected: boolean): void;
  /** The own message came back. */
  echoed(): void;
  stop(): Promise<void>;
}

export function createLink({ registry, log, heartbeatMs, probe, onGap }: LinkOptions): Link {
  let up = false;
  let echoDue = false;
  let lastBeat = 0;
  let timer: NodeJS.Timeout | undefined;

  const lose = (reason: string): void => {
    if (!up) return;
    up = false;
    log.warn({ reason }, 'Messages of other nodes may be missed; caches are bypassed until the connection is back');
    registry.beat(false).catch(() => undefined);
  };

  const restore = async (): Promise<void> => {
    if (up || timer === undefined) return;
    await registry.beat(true);
    onGap();
    up = true;
    log.info({}, 'Messages of other nodes arrive again');
  };

  const beat = async (): Promise<void> => {
    const late = Date.now() - lastBeat > deadAfterMs;
    const missed = await registry.beat(up);
    lastBeat = Date.now();
    if (missed || late) onGap();
  };

  const sendProbe = (): void => {
    if (echoDue) lose('an own message did not come back');
    echoDue = true;
    probe().catch(() => undefined);
  };

  const tick = (): void => {
    sendProbe();
    beat().catch((error: unknown) => log.warn({ err: error }, 'The heartbeat of this node could not be written'));
  };

  return {
    async start() {
      await registry.beat(true);
      lastBeat = Date.now();
      up = true;
      timer = setInterval(tick, heartbeatMs);
      timer.unref();
    },
    up: () => up,
    changed(connected) {
      if (!connected) lose('the connection was lost');
      else if (!up) sendProbe();
    },
    echoed() {
      echoDue = false;
      restore().catch((error: unknown) => log.warn({ err: error }, 'The bus is back, but this could not be registered'));
    },
    async stop() {
      clearInterval(timer);
      timer = undefined;
      up = false;
      await registry.leave().catch(() => undefined);
    },
  };
}
