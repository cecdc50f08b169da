package filters

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// bindCompleted is the annotation by which the controller of volumes says that a claim and its volume name
// each other.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// bind looks up the volumes of the pod. It returns an error if one is not there for it.
func (c *Check) bind() error {
	for i := range c.pod.Spec.Volumes {
		v := &c.pod.Spec.Volumes[i]
		for _, kind := range []struct {
			name string
			used bool
		}{
			{"gcePersistentDisk", v.GCEPersistentDisk != nil}, {"awsElasticBlockStore", v.AWSElasticBlockStore != nil},
			{"iscsi", v.ISCSI != nil}, {"rbd", v.RBD != nil},
		} {
			if kind.used {
				return fmt.Errorf("volume %q is of kind %s, whose use by other pods is not looked at: give it a claim", v.Name, kind.name)
			}
		}
	}
	for _, k := range c.pod.claims {
		if err := c.bindClaim(k); err != nil {
			return err
		}
	}
	return nil
}

func (c *Check) bindClaim(k claim) error {
	pvc, err := c.listers.Claims.PersistentVolumeClaims(c.pod.Namespace).Get(k.name)
	switch {
	case apierrors.IsNotFound(err) && k.ephemeral:
		return fmt.Errorf("persistentvolumeclaim %q of an ephemeral volume is not made yet", k.name)
	case err != nil:
		return err
	case pvc.Status.Phase == corev1.ClaimLost:
		return fmt.Errorf("persistentvolumeclaim %q is bound to persistentvolume %q, which is not there", k.name, pvc.Spec.VolumeName)
	case pvc.DeletionTimestamp != nil:
		return fmt.Errorf("persistentvolumeclaim %q is being deleted", k.name)
	}
	if k.ephemeral {
		if err := ephemeral.VolumeIsForPod(c.pod.Pod, pvc); err != nil {
			return err
		}
	}
	if _, bound := pvc.Annotations[bindCompleted]; !bound || pvc.Spec.VolumeName == "" {
		return c.unbound(pvc)
	}
	pv, err := c.listers.Volumes.Get(pvc.Spec.VolumeName)
	if err != nil {
		return err
	}
	c.volumes = append(c.volumes, pv)
	for _, mode := range pvc.Spec.AccessModes {
		if mode == corev1.ReadWriteOncePod {
			c.single = append(c.single, k.name)
			break
		}
	}
	return nil
}

// unbound returns an error that says who binds the claim.
func (c *Check) unbound(pvc *corev1.PersistentVolumeClaim) error {
	name := volume.GetPersistentVolumeClaimClass(pvc)
	class, err := c.listers.Classes.Get(name)
	if err == nil && pvc.Spec.VolumeName == "" && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
		return fmt.Errorf("persistentvolumeclaim %q is not bound, and storage class %q has volumeBindingMode %s, for which this scheduler binds none: "+
			"let default-scheduler place the pod", pvc.Name, name, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	return fmt.Errorf("persistentvolumeclaim %q is not bound yet", pvc.Name)
}

// betweenZones stands between the zones of a volume's label.
const betweenZones = "__"

// zoneLabels are the labels of volumes and nodes that tell where they are, and what each is called today.
var zoneLabels = map[string]string{
	corev1.LabelTopologyZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion: corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

func (c *Check) refusalOfVolumes(n *corev1.Node) string {
	zoned := false
	for key := range zoneLabels {
		_, ok := n.Labels[key]
		zoned = zoned || ok
	}
	for _, pv := range c.volumes {
		if volume.CheckNodeAffinity(pv, n.Labels) != nil {
			return VolumeAffinity
		}
		if zoned && !inZones(pv, n) {
			return VolumeZone
		}
	}
	return ""
}

// inZones reports whether the node is in one of the zones, and of the regions, that the volume's labels name.
// A label that cannot be read does not count.
func inZones(pv *corev1.PersistentVolume, n *corev1.Node) bool {
	for key, today := range zoneLabels {
		zones, ok := pv.Labels[key]
		if !ok {
			continue
		}
		at, ok := n.Labels[key]
		if !ok {
			at, ok = n.Labels[today]
		}
		within, readable := false, true
		for zone := range strings.SplitSeq(zones, betweenZones) {
			zone = strings.TrimSpace(zone)
			within, readable = within || ok && zone == at, readable && zone != ""
		}
		if readable && !within {
			return false
		}
	}
	return true
}
